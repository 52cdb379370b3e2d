"""BERT-whitening: vectors without a mean, uncorrelated and of equal variance, in as many dimensions as wanted."""

from __future__ import annotations

import numpy as np

from isotrope.baselines.fitted import Matrix, Step, Transform
from isotrope.errors import UserError
from isotrope.types import Count

ROUNDING = 1e-12  # of the largest variance: what float32 vectors have in directions that they do not use


def whitening(vectors: Matrix, k: int | None = None) -> tuple[Matrix, Matrix]:
    """Mean μ (D,) and W = (U Λ^-1/2)[:, :k] (D, k) of vectors (N, D): (x − μ) W has the identity as covariance.

    U Λ Uᵀ is the covariance over N, its directions by falling variance (PCA type). Without k all directions that have
    variance. Su et al., 2021, Algorithm 1, https://arxiv.org/abs/2103.15316.

    Raises:
        UserError: the vectors vary in fewer than k directions.
    """
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    values, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    values, directions = values[::-1], directions[:, ::-1]
    live = int(np.sum(values > ROUNDING * max(values[0], 0)))
    wanted = live if k is None else k
    if wanted > live or live == 0:
        raise UserError(
            f"whitening to k = {wanted or 1}: {len(vectors)} sentences in {len(mean)} dimensions vary in {live}",
            f"choose k up to {live}" if live else "fit on more sentences",
        )
    return mean, directions[:, :wanted] / np.sqrt(values[:wanted])


class Whitening(Step):
    """``+whitening``: BERT-whitening to ``k`` dimensions, by default all. BibTeX: su2021whitening."""

    k: Count | None = None

    def fitted(self, vectors: Matrix) -> Transform:
        """The map x -> (x − μ) W."""
        mean, matrix = whitening(vectors, self.k)
        return lambda x: (x - mean) @ matrix
