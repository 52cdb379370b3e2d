"""The model that encodes: by its name, or as the object that the user has."""

from collections.abc import Iterator
from contextlib import contextmanager
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


def opened(model: str | Path | Encoder, options: dict[str, Any]) -> Encoder:
    """A model by its name, with options of `isotrope.load`. An object without options is taken as it is."""
    given = [name for name, value in options.items() if value is not None]
    if isinstance(model, str | Path) or (given and isinstance(model, SentenceTransformer)):
        encoder: Encoder = load(located(model), **options, frozen=True)
        return encoder
    if not isinstance(model, Encoder):
        raise UserError(f"{model!r:.80} is not an encoder", "give a model's name or an object with encode(list[str])")
    if given:
        raise needs_a_model(given[0], options[given[0]])
    return model


def needs_a_model(option: str, value: Any) -> UserError:
    """An option that an object with ``encode`` alone cannot have."""
    return UserError(f"{option} = {value!r} needs a sentence-transformers model", "leave it out")


@contextmanager
def as_it_was(model: Any) -> Iterator[None]:
    """Leave a model of the user's in the mode that it had: its ``encode`` ends training."""
    training = getattr(model, "training", False)
    try:
        yield
    finally:
        if training:
            model.train()


def first_vector(encoder: Encoder) -> Vectors:
    """One vector (1, D), which shows the dimension."""
    return vectors_of(encoder, ["A first sentence shows the dimension of the vectors."], progress=lambda done: None)


def encoder_checksum(encoder: Encoder, vector: Vectors) -> str:
    """Of the weights, the configuration and the tokenizer; of an unknown encoder, its class and a vector (1, D)."""
    if isinstance(encoder, SentenceTransformer):
        return model_checksum(encoder)
    return xxhash.xxh3_128_hexdigest(shown_name(encoder).encode() + vector.astype(np.float16).tobytes())


def shown_name(model: str | Path | Encoder) -> str:
    """What a model is called: its name, or the class of an encoder."""
    return str(model) if isinstance(model, str | Path) else f"{type(model).__module__}.{type(model).__qualname__}"
