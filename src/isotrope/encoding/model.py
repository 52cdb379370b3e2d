"""The model that encodes: how it is opened, what it is called, and what tells it from others."""

from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.checksum import located, model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.errors import UserError
from isotrope.types import Encoder

ModelLike = str | Path | Encoder
_FIRST_TEXT = "A first sentence shows the dimension of the vectors."


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of `isotrope.load`; None: as the model has it."""

    pooling: str | None = None
    normalize: bool | None = None
    device: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    dtype: str | None = None
    sample: tuple[str, ...] | None = None

    def chosen(self) -> dict[str, Any]:
        """Those that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def open_model(model: ModelLike, options: LoadOptions) -> Encoder:
    """A model by its name, or a loaded one; with options, it is loaded anew.

    UserError if an object that is no sentence-transformers model has options.
    """
    chosen = options.chosen()
    is_name = isinstance(model, str | Path)
    if is_name or (isinstance(model, SentenceTransformer) and chosen):
        return load(located(model), **chosen, frozen=True)  # type: ignore[no-any-return]
    if chosen:
        name, value = next(iter(chosen.items()))
        problem = f"{name} = {value!r} needs a sentence-transformers model"
        raise UserError(problem, "leave it out", "option-of-a-model")
    return model  # type: ignore[return-value]


def model_name(model: ModelLike) -> str:
    """What a model is called: its name, or the class of an object."""
    if isinstance(model, str | Path):
        return str(model)
    return f"{type(model).__module__}.{type(model).__qualname__}"


def first_vector(encoder: Encoder) -> Vectors:
    """The vector (1, D) of a fixed text."""
    return vectors_of(encoder, [_FIRST_TEXT], progress=lambda done: None)


def encoder_checksum(encoder: Encoder, first: Vectors | None = None) -> str:
    """Checksum of all that decides the vectors of a model, except its prompts.

    Of another object it is that of its class and its `first_vector`, which may be given.
    """
    if isinstance(encoder, SentenceTransformer):
        without_prompts = copy(encoder)
        without_prompts.prompts = {}
        without_prompts.default_prompt_name = None
        return model_checksum(without_prompts)
    vector = first_vector(encoder) if first is None else first
    rounded = vector.astype(np.float16).tobytes()
    return xxhash.xxh3_128_hexdigest(model_name(encoder).encode() + rounded)
