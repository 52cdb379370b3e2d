"""The trained encoder as a Hugging Face folder that is small on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch


def export(model: Any, tokenizer: Any, folder: Path, half: bool = True) -> Path:
    """Write the encoder without its masked-language head, and the tokenizer; replace what is there when all is written.

    With `half` the weights are stored in fp16, and the config says float32, so that they are loaded in that: training
    and CPU arithmetic in fp16 would lose precision.
    """
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    encoder = type(model.model)(model.config)
    encoder.load_state_dict(model.model.state_dict())
    encoder.config.sparse_prediction = False
    encoder.to(torch.float16 if half else torch.float32).save_pretrained(part)
    config = json.loads((part / "config.json").read_text())
    (part / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=2) + "\n")
    _save_tokenizer(tokenizer, part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
    return folder


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """With the class name that every version knows, and without what is true of this machine alone."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = {k: v for k, v in json.loads(path.read_text()).items() if k not in {"is_local", "local_files_only"}}
    path.write_text(json.dumps(settings | {"tokenizer_class": "PreTrainedTokenizerFast"}, indent=2) + "\n")
