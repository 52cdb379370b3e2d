"""What bulk encoding and search read: the model, and the text of every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.errors import UserError
from isotrope.text.files import TextFile
from isotrope.text.lines import LONGEST_LINE
from isotrope.text.readers import Columns, rows
from isotrope.types import Encoder


def opened(model: str | Path | Encoder, options: dict[str, Any]) -> Encoder:
    """A model by its name, with options of `isotrope.load`; or an encoder as it is, with none of them.

    Raises:
        UserError: it is no encoder, or cannot have the options; as `isotrope.load`.
    """
    if isinstance(model, str | Path):
        encoder: Encoder = load(model, **options, frozen=True)
        return encoder
    for name, value in options.items():
        if value is not None:
            raise UserError(f"{name} = {value!r} needs the name of a model", f"give {name} to isotrope.load instead")
    if not isinstance(model, Encoder):
        raise UserError(f"{model!r:.80} is not an encoder", "give a model's name or an object with encode(list[str])")
    return model


def first_vector(encoder: Encoder) -> Vectors:
    """One vector (1, D), which shows the dimension.

    Raises:
        UserError: as `vectors_of`.
    """
    return vectors_of(encoder, ["A first sentence shows the dimension of the vectors."], progress=lambda done: None)


def encoder_checksum(encoder: Encoder, vector: Vectors) -> str:
    """Of the weights, the configuration and the tokenizer; of an unknown encoder, its class and a vector (1, D)."""
    if not isinstance(encoder, SentenceTransformer):
        return xxhash.xxh3_128_hexdigest(_class_name(encoder).encode() + vector.astype(np.float16).tobytes())
    return model_checksum(encoder)


def shown_name(model: str | Path | Encoder) -> str:
    """What a model is called: its name, or the class of an encoder."""
    return str(model) if isinstance(model, str | Path) else _class_name(model)


def every_text(sources: Sequence[TextFile], text: str | None) -> Iterator[str]:
    """Every row's sentence, as it is: without the line's end, and empty for a blank line or a null.

    Args:
        sources: the files, in their order.
        text: the column of the sentences in tables, as in `isotrope.text.readers.Columns`.

    Raises:
        UserError: a row cannot be read (with file and line).
    """
    for source in sources:
        for line, (field,) in rows(source, Columns(text)):
            sentence = field or ""
            if source.format == ".txt":
                sentence = sentence.removesuffix("\n").removesuffix("\r")
            try:
                size = len(sentence.encode())
            except UnicodeEncodeError as error:
                problem = f"{source.path}:{line} holds what is not UTF-8 text"
                raise UserError(problem, "convert the file to UTF-8 or correct the line") from error
            if source.format == ".txt" and size >= LONGEST_LINE:  # the reader has cut it
                raise UserError(f"{source.path}:{line} is longer than {LONGEST_LINE} bytes", "break the line")
            yield sentence


def _class_name(encoder: object) -> str:
    return f"{type(encoder).__module__}.{type(encoder).__qualname__}"
