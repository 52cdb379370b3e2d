"""BERT-whitening: vectors without a mean, uncorrelated and of equal variance, in as many dimensions as wanted."""

from __future__ import annotations

import numpy as np

from isotrope.errors import UserError
from isotrope.post.fitted import PostStep, Transform
from isotrope.types import Count, Matrix

ROUNDING = 1e-12  # of the largest variance: what float32 vectors have in directions that they do not use


def whitening(vectors: Matrix, k: int | None = None) -> tuple[Matrix, Matrix]:
    """Mean μ (D,) and W = (U Λ^-1/2)[:, :k] (D, k) of vectors (N, D): (x − μ) W has the identity as covariance.

    U Λ Uᵀ is the covariance over N, its directions by falling variance (PCA type); k is D by default. Directions
    without variance are left out, so that there may be fewer than k: a last LayerNorm takes one away from every
    mean-pooled BERT, and Λ^-1/2 would blow its rounding up to full size.

    Su et al., 2021, https://arxiv.org/abs/2103.15316, Algorithm 1.

    Raises:
        UserError: more dimensions are asked for than there are; too few sentences for them; all have the same vector.
    """
    rows, dim = vectors.shape
    wanted = dim if k is None else k
    if wanted > dim:
        raise UserError(f"whitening to k = {k} of {dim} dimensions", f"choose k up to {dim}")
    if rows <= wanted:
        raise UserError(
            f"{rows} sentences cannot whiten {wanted} dimensions", "fit on more sentences, or choose a smaller k"
        )
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    values, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    values, directions = values[::-1], directions[:, ::-1]
    if values[0] <= ROUNDING * np.mean(vectors**2):
        raise UserError(f"all {rows} sentences have the same vector", "check the model: nothing can be whitened")
    live = min(wanted, int(np.sum(values > ROUNDING * values[0])))
    return mean, directions[:, :live] / np.sqrt(values[:live])


class Whitening(PostStep):
    """``+whitening``: BERT-whitening to ``k`` dimensions, by default all. BibTeX: su2021whitening."""

    k: Count | None = None

    def fitted(self, vectors: Matrix) -> Transform:
        """The map x -> (x − μ) W."""
        mean, matrix = whitening(vectors, self.k)
        return lambda x: (x - mean) @ matrix
