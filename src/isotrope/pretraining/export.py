"""The trained encoder as a Hugging Face folder that is small on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from isotrope.encoder.export import for_transformers_4
from isotrope.store.atomic import write_json


def write_encoder(model: Any, tokenizer: Any, folder: Path, half: bool = True) -> None:
    """Write the encoder without its masked-language head, and the tokenizer, into a new folder.

    With ``half`` the weights are stored in fp16, and the config says float32, so that they are loaded in that: training
    and CPU arithmetic in fp16 would lose precision.
    """
    encoder = type(model.model)(model.config)
    encoder.load_state_dict(model.model.state_dict())
    encoder.config.sparse_prediction = False
    encoder.to(torch.float16 if half else torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    older = for_transformers_4(encoder.config.to_dict()) or {}
    _amend(folder / "config.json", dtype="float32", **older)
    # with the class name that every version knows, and without what is true of this machine alone
    _amend(
        folder / "tokenizer_config.json", {"is_local", "local_files_only"}, tokenizer_class="PreTrainedTokenizerFast"
    )


def _amend(path: Path, without: frozenset[str] | set[str] = frozenset(), **values: Any) -> None:
    settings = json.loads(path.read_text(encoding="utf-8")) | values
    write_json(path, {key: value for key, value in settings.items() if key not in without})
