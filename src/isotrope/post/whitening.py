"""BERT-whitening: vectors without a mean, uncorrelated, of equal or of less unequal variance."""

import numpy as np
from sklearn.covariance import ledoit_wolf

from isotrope.errors import UserError
from isotrope.post.fitted import LinearStep
from isotrope.types import Count, Exponent, Matrix

FULL_WHITENING = 0.5  # the exponent of the paper: all directions get the variance 1
SOFT_WHITENING = 0.25  # the exponent of `isotrope whiten`: docs/whiten.md says why
# of the largest variance: what float32 vectors have in directions that they do not use
ROUNDING = 1e-12


def whitening(
    vectors: Matrix,  # (N, D)
    k: int | None = None,
    exponent: float = FULL_WHITENING,
    shrink: bool = False,
) -> tuple[Matrix, Matrix]:
    """Mean μ (D,) and W = (U Λ^-exponent)[:, :k] (D, k); the result of x is (x − μ) W.

    U Λ Uᵀ is the covariance over N, its directions by falling variance (PCA type); k is D by
    default. A direction of variance λ has the variance λ^(1 − 2 exponent) afterwards: 1 with
    exponent 0.5, as in Algorithm 1 of Su et al., 2021, https://arxiv.org/abs/2103.15316. Exponent 0
    changes the cosines as centring does. Values between are "soft".

    Directions without variance are left out, so there may be fewer than k. A last LayerNorm takes
    one away from every mean-pooled BERT, and Λ^-1/2 would blow its rounding up to full size.
    Exponent 0 keeps them: it enlarges nothing.

    Of few vectors, small variances come out too small, and whitening enlarges noise. ``shrink``
    moves the covariance towards a multiple of the identity, as Ledoit and Wolf have it,
    https://doi.org/10.1016/S0047-259X(03)00096-4.
    """
    rows, dim = vectors.shape
    count = check_size(rows, dim, k, exponent, shrink)
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    if shrink:
        covariance, _ = ledoit_wolf(centred)  # (D, D)
    else:
        covariance = covariance_of(centred)  # (D, D)

    variances, directions = np.linalg.eigh(covariance)
    variances = variances[::-1]  # Λ, falling
    directions = directions[:, ::-1]  # U
    largest = variances[0]
    mean_square = np.mean(vectors**2)
    if largest <= ROUNDING * mean_square:
        problem = f"all {len(vectors)} sentences have the same vector"
        raise UserError(problem, "check the model: nothing can be whitened", code="equal-vectors")

    if exponent:
        is_used = variances > ROUNDING * largest
        count = min(count, int(is_used.sum()))
    variances = variances[:count]
    directions = directions[:, :count]  # (D, k)
    matrix = directions * variances**-exponent
    return mean, matrix


def covariance_of(centred: Matrix) -> Matrix:
    """The covariance (D, D) over N of centred vectors (N, D)."""
    products = centred.T @ centred
    return products / len(centred)


def check_size(
    rows: int,
    dim: int,
    k: int | None,
    exponent: float = FULL_WHITENING,
    shrink: bool = False,
) -> int:
    """How many dimensions are kept of ``dim``: ``k``, by default all. There must be rows enough for
    them.
    """
    count = k or dim
    if count > dim or rows < fewest_rows(dim, k, exponent, shrink):
        problem = f"{rows} sentences cannot whiten {count} dimensions of {dim}"
        remedy = f"fit on more than {count} sentences, or choose a smaller k"
        if k is None:
            remedy += " or exponent 0 (centring alone)"
        raise UserError(problem, remedy, code="too-few-sentences")
    return count


def fewest_rows(dim: int, k: int | None, exponent: float, shrink: bool = False) -> int:
    """How many rows the fit needs: more than the dimensions. To centre or to shrink, two are
    enough.
    """
    only_centres = k is None and exponent == 0
    if shrink or only_centres:
        return 2
    dimensions = dim if k is None else k
    return dimensions + 1


class Whitening(LinearStep):
    """``+whitening``: BERT-whitening to ``k`` dimensions; default: all. BibTeX: su2021whitening."""

    k: Count | None = None  # dimensions kept, of the largest variance
    exponent: Exponent = FULL_WHITENING  # as published; 0 is centring alone
    shrink: bool = False  # estimate the covariance for few vectors (Ledoit and Wolf)

    def linear(self, vectors: Matrix) -> tuple[Matrix, Matrix]:
        return whitening(vectors, self.k, self.exponent, self.shrink)
