"""Save an encoder so that plain sentence-transformers, version 5 or 6, loads it with equal embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.encoder.no_bars import without_bars
from isotrope.store.atomic import new_folder, write_json

# sentence-transformers 6 writes names that version 5 does not know; version 6 reads the older ones as well.
CLASSIC = "sentence_transformers.models."
MODES = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


def save(model: SentenceTransformer, folder: Path) -> None:
    """Write ``model`` to ``folder`` (safetensors), whole or not at all.

    Raises:
        UserError: ``folder`` holds something that is not ours.
    """
    with new_folder(folder, "model") as draft:
        with without_bars():
            model.save_pretrained(str(draft), create_model_card=False)
        modules = _read(draft / "modules.json")
        for module in modules:
            if module["type"].startswith("sentence_transformers."):
                module["type"] = CLASSIC + module["type"].rsplit(".", 1)[-1]
                _make_classic(draft / module["path"], module["type"].removeprefix(CLASSIC), model.max_seq_length)
        write_json(draft / "modules.json", modules)


def _make_classic(folder: Path, kind: str, max_seq_length: int | None) -> None:
    """Rewrite a module's settings in the words of version 5."""
    if kind == "Transformer":
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_seq_length, "do_lower_case": False})
        tokenizer = folder / "tokenizer_config.json"
        if tokenizer.is_file() and (words := _read(tokenizer)).get("tokenizer_class") == "TokenizersBackend":
            write_json(
                tokenizer, words | {"tokenizer_class": "PreTrainedTokenizerFast"}
            )  # its name before transformers 5
        return
    path = folder / "config.json"
    if kind not in {"Pooling", "WeightedLayerPooling", "Dense"} or not path.is_file():
        return
    settings = _read(path)
    if "embedding_dimension" in settings:
        settings["word_embedding_dimension"] = settings.pop("embedding_dimension")
    if kind == "Pooling":
        asked = settings.pop("pooling_mode")
        chosen = {asked} if isinstance(asked, str) else set(asked)
        settings |= {key: mode in chosen for mode, key in MODES.items()}
    if kind == "Dense":
        for key in ("module_input_name", "module_output_name"):
            if settings.get(key) == "sentence_embedding":
                del settings[key]
    write_json(path, settings)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
