"""Correlations that are 0, not NaN, if one of the two sides is constant."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, zscore

from isotrope.types import Vector

Floats: TypeAlias = npt.NDArray[np.floating[Any]]

# Values that differ by less than this, relatively, differ by rounding only (float32).
_CONSTANT = 1e-6


def spearman(x: Vector, y: Vector) -> float:
    """Spearman's rank correlation of x (N,) and y (N,); ties share their mean rank.

    A constant orders nothing, so it scores 0. Unlike NaN, 0 compares and fits into JSON, so a
    collapsed encoder gets a number too.
    """
    return float(np.clip(rank_products(x, y).mean(), -1.0, 1.0))


def pearson(x: Vector, y: Vector) -> float:
    """Pearson's correlation of x (N,) and y (N,); 0 if one of them is constant."""
    return float(np.clip(standard_products(x, y).mean(), -1.0, 1.0))


def rank_products(x: Vector, y: Vector) -> Vector:
    """Products of the ranks of x and y (N,) in standard units (N,): their mean is `spearman`."""
    if _is_constant(x) or _is_constant(y):
        return np.zeros(len(x))

    return standard_products(rankdata(x), rankdata(y))


def standard_products(x: Vector, y: Vector) -> Vector:
    """Products of x (N,) and y (N,) in standard units (N,): their mean is `pearson`."""
    if _is_constant(x) or _is_constant(y):
        return np.zeros(len(x))

    return np.asarray(zscore(x) * zscore(y))


def _is_constant(values: Vector) -> bool:
    return float(np.ptp(values)) <= _CONSTANT * float(np.max(np.abs(values)))


def ratios(numerators: Floats, denominators: Floats) -> Vector:
    """Numerators (N,) over denominators (N,), in the precision of both; 0 where these are not
    above 0.
    """
    quotients = np.zeros(len(numerators))
    np.divide(numerators, denominators, out=quotients, where=denominators > 0)
    return quotients
