"""How many directions of its space a model uses: the covariance's eigenvalues, and two numbers made of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.types import Matrix, Vector


def unit(vectors: npt.ArrayLike) -> Matrix:
    """Rows of (N, D) divided by their norm, a zero row left as it is."""
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=rows.copy(), where=norms > 0))


def variance_shares(rows: Matrix) -> Vector:
    """Eigenvalues of the covariance of rows (N, D), largest first, as shares of their sum -> (min(D, N − 1),)."""
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    values = values[: min(rows.shape[1], len(rows) - 1)]  # centring takes one dimension of N away
    return np.asarray(values / max(values.sum(), np.finfo(float).tiny))


def effective_rank(shares: Vector) -> float:
    """Exponential of the entropy of shares (K,): how many equal directions would spread as much, 1 … K.

    Roy and Vetterli, EUSIPCO 2007: The effective rank: a measure of effective dimensionality.
    """
    some = shares[shares > 0]
    return float(np.exp(-np.sum(some * np.log(some))))


def iso_score(rows: npt.ArrayLike) -> float:
    """IsoScore of rows (N, D): 0 where they vary along one direction, 1 where equally along all D.

    Rudman et al., Findings of ACL 2022, https://aclanthology.org/2022.findings-acl.262, Algorithm 1. Its steps
    start from the variances λ along the principal axes. They come down to (P − 1) / (D − 1), where
    P = (Σλ)² / Σλ² is the participation ratio. So k equal directions out of D give (k − 1) / (D − 1). Mean, scale and
    rotation do not count. With fewer than about ten rows a dimension it comes out too low.

    Raises UserError for fewer than two rows or dimensions, values that are not finite, and rows that are all equal.
    """
    x = np.asarray(rows, dtype=np.float64)
    if x.ndim != 2 or min(x.shape) < 2:
        raise UserError(f"IsoScore of shape {x.shape}", "give at least two rows of two dimensions")
    if not np.isfinite(x).all():
        raise UserError("IsoScore of values that are not finite", "leave those rows out")
    if not np.ptp(x, axis=0).any():
        raise UserError("IsoScore of rows that are all equal", "they have no spread: the encoder has collapsed")
    return float((1 / np.sum(variance_shares(x) ** 2) - 1) / (x.shape[1] - 1))
