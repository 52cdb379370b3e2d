"""Vectors cut to their first dimensions, and stored as 8-bit numbers or as bits: what that costs.

Cutting: Matryoshka Representation Learning (Kusupati et al., NeurIPS 2022, Sec. 3), https://arxiv.org/abs/2205.13147.
Rounding: sentence-transformers' `quantize_embeddings`, https://sbert.net/examples/applications/embedding-quantization.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from sentence_transformers.util import quantize_embeddings

from isotrope.errors import UserError
from isotrope.post.fitted import PostStep, Transform
from isotrope.types import Count, Matrix

StoredAs = Literal["float32", "int8", "binary"]


def shortened(vectors: Matrix, k: int | None = None, precision: StoredAs = "float32") -> Transform:
    """Rows (N, D) -> what is left of their first k dimensions, (N, k); k is D by default.

    Rows are cut and get unit length. "int8" rounds each dimension to 256 steps between its least and its largest value
    among ``vectors``. This moves the origin to the middle of the ranges, so cosines change as by centring, and a raw
    model may even gain. "binary" keeps the signs, -1 or 1: cosines then order texts as the Hamming distance does.
    """
    width = vectors.shape[1]
    if k is not None and k > width:
        raise UserError(f"vectors of {width} dimensions cannot be cut to {k}", f"choose at most {width}")

    def cut(x: Matrix) -> Matrix:
        x = x[:, :k]
        return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float64).tiny))

    if precision == "float32":
        return cut
    if precision == "binary":
        return lambda x: np.where(cut(x) > 0, 1.0, -1.0)  # as `quantize_embeddings` sets the bits, before it packs them
    known = cut(vectors)
    ends = np.stack([known.min(axis=0), known.max(axis=0)])  # (2, k)
    return lambda x: np.asarray(quantize_embeddings(cut(x), "int8", ranges=ends), dtype=np.float64)


class Shortened(PostStep):
    """``+shortened``: fewer dimensions, fewer bits, or both. BibTeX: kusupati2022matryoshka.

    Attributes:
        k: dimensions kept, the first ones; all by default.
        precision: of a number.
    """

    k: Count | None = None
    precision: StoredAs = "float32"

    def fitted(self, vectors: Matrix) -> Transform:
        """`shortened` with this step's options."""
        return shortened(vectors, self.k, self.precision)

    def __str__(self) -> str:
        """As tables name it: "64 dimensions, int8"."""
        parts = [f"{self.k} dimensions"] if self.k else []
        return ", ".join([*parts, self.precision] if self.precision != "float32" else parts)


def shortenings(truncate: str | None, precision: str | None) -> list[Shortened]:
    """All that "64,128" and "int8,binary" ask for: each number of dimensions in float32 and in each precision."""
    widths, stored = list[int | None](), list[str]()
    for each in _listed(truncate):
        if not each.isascii() or not each.isdigit() or not int(each):
            raise UserError(f"--truncate {each!r} is not possible", "list whole numbers of at least 1, such as 64,128")
        widths.append(int(each))
    for each in _listed(precision):
        if each not in ("int8", "binary"):
            raise UserError(f"--precision {each!r} is unknown", "choose int8, binary, or both: int8,binary")
        stored.append(each)
    every = [{"k": k, "precision": stored_as} for k in (None, *widths) for stored_as in ("float32", *stored)]
    return [Shortened.model_validate(each) for each in every[1:]]  # the first is the model itself


def _listed(text: str | None) -> list[str]:
    return list(dict.fromkeys(each.strip() for each in text.split(","))) if text is not None else []
