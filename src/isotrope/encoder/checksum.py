"""Checksums of models: the keys of their embeddings, and of models that were given as objects."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import torch
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.encoder.adapters import base_model
from isotrope.encoder.export import save
from isotrope.encoder.locate import locate
from isotrope.store.cache import cache_folder, cached

GivenModel: TypeAlias = str | Path | SentenceTransformer  # as the user gives it
_ENDINGS = {".safetensors", ".json", ".txt", ".model"}  # of the files that decide the vectors


def model_checksum(encoder: SentenceTransformer, *further: Any) -> str:
    """Checksum of all that decides the embeddings, and of ``further``.

    That is weights, modules, tokenizer, prompts and length. The folder of the model does not count,
    nor what its latest batch has set (truncation, padding).
    """
    described = [
        repr(encoder),
        _settings(encoder),
        _tokenizer_state(encoder),
        [encoder.prompts, encoder.default_prompt_name, encoder.truncate_dim],
        encoder.max_seq_length,
        *further,
    ]
    description = json.dumps(described, sort_keys=True, default=repr)
    total = xxhash.xxh3_128(description.encode())
    is_widened = getattr(encoder, "widened", False)  # its words are held in 16 bits
    for name, stored in sorted(encoder.state_dict().items()):
        weights = stored.float() if is_widened else stored
        header = f"|{name} {weights.dtype} {tuple(weights.shape)}|"
        total.update(header.encode())
        flat = weights.detach().cpu().contiguous().reshape(-1)
        total.update(flat.view(torch.uint8).numpy())
    return total.hexdigest()


def _settings(encoder: SentenceTransformer) -> dict[str, Any]:
    config = getattr(getattr(encoder[0], "auto_model", None), "config", None)
    if config is None:
        return {}
    settings: dict[str, Any] = config.to_dict()
    settings.pop("_name_or_path", None)
    return settings


def _tokenizer_state(encoder: SentenceTransformer) -> Any:
    tokenizer: Any = getattr(encoder, "tokenizer", None)
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(tokenizer, "to_str"):
        return tokenizer
    state = json.loads(tokenizer.to_str())
    # These two are of the latest batch.
    del state["truncation"]
    del state["padding"]
    return state


def files_checksum(model: str) -> str:
    """Checksum of a local model's files, without loading it.

    A hub name has no files here: it is returned unchanged.
    """
    folder = Path(locate(model))
    if not folder.is_dir():
        return model
    total = xxhash.xxh3_128()
    base = base_model(str(folder), model)
    if base:
        total.update(files_checksum(base).encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix in _ENDINGS:
            total.update(f"|{path.relative_to(folder)}|".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def located(model: GivenModel) -> str:
    """The name or folder of a model, from which each load is a fresh one.

    A loaded one goes to the cache first.
    """
    if not isinstance(model, SentenceTransformer):
        return str(model)
    key = model_checksum(model)
    folder = cached(cache_folder("models", key), lambda draft: save(model, draft / "model"))
    return str(folder / "model")
