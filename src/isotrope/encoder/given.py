"""A model as the user gives it: a name, a folder, or an object that is loaded already."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from sentence_transformers import SentenceTransformer

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.export import save
from isotrope.store.cache import cache_folder, cached

GivenModel: TypeAlias = str | Path | SentenceTransformer


def located(model: GivenModel) -> str:
    """The name or folder of a model. A loaded one is written to the cache first, under its checksum.

    What works behind the door loads a model more than once, with other settings. From files, each load is a fresh one,
    and the object that the user gave stays as it was.
    """
    if not isinstance(model, SentenceTransformer):
        return str(model)
    folder = cached(cache_folder("models", model_checksum(model)), lambda draft: save(model, draft / "model"))
    return str(folder / "model")
