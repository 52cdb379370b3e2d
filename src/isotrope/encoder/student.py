"""A smaller model made of a larger one, to begin training with: ``layers:3`` or ``static``."""

from __future__ import annotations

import re

from sentence_transformers import SentenceTransformer

from isotrope.encoder.layers import PLACES, keep_layers
from isotrope.encoder.narrow import keep_tokens, keep_units
from isotrope.encoder.token_vectors import static_model
from isotrope.errors import UserError

STATIC = "static"
_COUNT = r"([1-9]\d{0,6})"
_LAYERS = re.compile(rf"layers:{_COUNT}(?::({'|'.join(PLACES)}))?(?:,vocabulary:{_COUNT})?(?:,inner:{_COUNT})?")


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know.

    Raises:
        UserError: names the value, and what there is.
    """
    if student != STATIC and not _LAYERS.fullmatch(student):
        remedy = "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers"
        raise UserError(f"the student {student!r} is unknown", f"{remedy}; behind it ,vocabulary:N and ,inner:N")


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None. Call it with a model that nothing else uses.

    Args:
        model: the teacher.
        student: ``layers:N`` keeps N layers, spread evenly; ``layers:N:first`` and ``layers:N:last`` keep those. See
            `isotrope.encoder.layers`. ``layers:N,vocabulary:V,inner:U`` also keeps the first V tokens alone, and U
            units within each layer; either may stand without the other: `isotrope.encoder.narrow`. ``static`` gives
            each token one vector: `isotrope.encoder.token_vectors`.

    Raises:
        UserError: as `check_student`, `keep_layers`, `keep_tokens`, `keep_units` and `static_model`.
    """
    if student is None:
        return model
    check_student(student)
    if student == STATIC:
        return static_model(model)
    count, place, tokens, units = _LAYERS.fullmatch(student).groups()  # type: ignore[union-attr]  # checked above
    model = keep_layers(model, int(count), place or PLACES[0])
    if tokens:
        model = keep_tokens(model, int(tokens))
    return keep_units(model, int(units)) if units else model
