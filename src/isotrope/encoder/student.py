"""A smaller model made of a larger one, to begin training with: ``layers:3`` or ``static``."""

from __future__ import annotations

import re

from sentence_transformers import SentenceTransformer

from isotrope.encoder.layers import PLACES, keep_layers
from isotrope.encoder.token_vectors import static_model
from isotrope.errors import UserError

STATIC = "static"
_LAYERS = re.compile(rf"layers:([1-9]\d{{0,3}})(?::({'|'.join(PLACES)}))?")


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know.

    Raises:
        UserError: names the value, and what there is.
    """
    if student != STATIC and not _LAYERS.fullmatch(student):
        remedy = "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers"
        raise UserError(f"the student {student!r} is unknown", remedy)


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None. Call it with a model that nothing else uses.

    Args:
        model: the teacher.
        student: ``layers:N`` keeps N layers, spread evenly; ``layers:N:first`` and ``layers:N:last`` keep those. See
            `isotrope.encoder.layers`. ``static`` gives each token one vector: `isotrope.encoder.token_vectors`.

    Raises:
        UserError: as `check_student`, `keep_layers` and `static_model`.
    """
    if student is None:
        return model
    check_student(student)
    if student == STATIC:
        return static_model(model)
    count, place = _LAYERS.fullmatch(student).groups()  # type: ignore[union-attr]  # checked above
    return keep_layers(model, int(count), place or PLACES[0])
