"""Checksums of models: the keys under which their embeddings, and models given as objects, are
kept.
"""

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


def model_checksum(encoder: SentenceTransformer, *further: Any) -> str:
    """Checksum of all that decides the embeddings: weights, modules, tokenizer, prompts, length,
    and ``further``.

    The folder of the model does not count, nor what its latest batch has set (truncation, padding).
    """
    config = getattr(getattr(encoder[0], "auto_model", None), "config", None)
    settings = (
        {}
        if config is None
        else {k: v for k, v in config.to_dict().items() if k != "_name_or_path"}
    )
    words: Any = getattr(encoder, "tokenizer", None)
    words = getattr(words, "backend_tokenizer", words)
    if hasattr(words, "to_str"):
        words = {
            k: v
            for k, v in json.loads(words.to_str()).items()
            if k not in {"truncation", "padding"}
        }
    prompts = [encoder.prompts, encoder.default_prompt_name, encoder.truncate_dim]
    described = [repr(encoder), settings, words, prompts, encoder.max_seq_length, *further]
    total = xxhash.xxh3_128(json.dumps(described, sort_keys=True, default=repr).encode())
    for name, stored in sorted(encoder.state_dict().items()):
        tensor: Any = stored.float() if getattr(encoder, "widened", False) else stored
        total.update(f"|{name} {tensor.dtype} {tuple(tensor.shape)}|".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()


def files_checksum(model: str) -> str:
    """Checksum of a local model's files, without loading it. A hub name has no files here: it is
    returned unchanged.
    """
    folder = Path(locate(model))
    if not folder.is_dir():
        return model
    total = xxhash.xxh3_128()
    if base := base_model(str(folder), model):
        total.update(files_checksum(base).encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".safetensors", ".json", ".txt", ".model"}:
            total.update(f"|{path.relative_to(folder)}|".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def located(model: GivenModel) -> str:
    """The name or folder of a model, from which each load is a fresh one. A loaded one goes to the
    cache first.
    """
    if not isinstance(model, SentenceTransformer):
        return str(model)
    folder = cached(
        cache_folder("models", model_checksum(model)), lambda draft: save(model, draft / "model")
    )
    return str(folder / "model")
