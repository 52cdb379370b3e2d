"""Vectors cut to their first dimensions (https://arxiv.org/abs/2205.13147), and stored as 8-bit
numbers or as bits.
"""

import itertools
from typing import Literal

import numpy as np
from pydantic import ValidationError
from sentence_transformers.util import quantize_embeddings
from sklearn.preprocessing import normalize

from isotrope.errors import UserError
from isotrope.post.fitted import PostStep, Transform
from isotrope.types import Count, Matrix

StoredAs = Literal["float32", "int8", "binary"]


def shortened(vectors: Matrix, k: int | None = None, precision: StoredAs = "float32") -> Transform:
    """Rows (N, D) -> what is left of their first k dimensions, (N, k); k is D by default.

    Rows are cut and get unit length. "int8", as `quantize_embeddings`, rounds each dimension to 256
    steps between its least and largest value among ``vectors``. This moves the origin to the middle
    of the ranges, so cosines change as by centring. "binary" keeps the signs, -1 or 1: cosines then
    order texts as the Hamming distance does.
    """
    width = vectors.shape[1]
    if k is not None and k > width:
        problem = f"vectors of {width} dimensions cannot be cut to {k}"
        raise UserError(problem, f"choose at most {width}", code="too-many-dimensions")

    def cut(x: Matrix) -> Matrix:
        return np.asarray(normalize(x[:, :k]))

    if precision == "float32":
        return cut
    if precision == "binary":
        # as `quantize_embeddings` sets the bits, before it packs them
        return lambda x: np.where(cut(x) > 0, 1.0, -1.0)

    fitted_rows = cut(vectors)
    least = fitted_rows.min(axis=0)
    largest = fitted_rows.max(axis=0)
    ranges = np.stack([least, largest])  # (2, k)

    def rounded(x: Matrix) -> Matrix:
        numbers = quantize_embeddings(cut(x), "int8", ranges=ranges)
        return np.asarray(numbers, dtype=np.float64)

    return rounded


class Shortened(PostStep):
    """``+shortened``: fewer dimensions, fewer bits, or both. BibTeX: kusupati2022matryoshka."""

    k: Count | None = None  # dimensions kept, the first ones; all by default
    precision: StoredAs = "float32"

    def fitted(self, vectors: Matrix) -> Transform:
        return shortened(vectors, self.k, self.precision)

    def __str__(self) -> str:
        """As tables name it: "64 dimensions, int8"."""
        words = [f"{self.k} dimensions"] if self.k else []
        if self.precision != "float32":
            words.append(self.precision)
        return ", ".join(words)


def shortenings(truncate: str | None, precision: str | None) -> list[Shortened]:
    """All that "64,128" and "int8,binary" ask for: each number of dimensions in float32 and in each
    precision.
    """
    widths: list[str | None] = [None]
    if truncate is not None:
        widths += [width.strip() for width in truncate.split(",")]
    precisions = ["float32"]
    if precision is not None:
        precisions += [name.strip() for name in precision.split(",")]

    steps = []
    try:
        for width, stored_as in itertools.product(widths, precisions):
            steps.append(Shortened.model_validate({"k": width, "precision": stored_as}))
        return list(dict.fromkeys(steps))[1:]  # the first of all is the model itself
    except ValidationError as error:
        first = error.errors()[0]
        option = "--truncate" if first["loc"] == ("k",) else "--precision"
        remedy = (
            "list whole numbers of at least 1, as in --truncate 64,128, and --precision int8,binary"
        )
        problem = f"{option} {first['input']!r} is not possible"
        raise UserError(problem, remedy, code="impossible-value") from error
