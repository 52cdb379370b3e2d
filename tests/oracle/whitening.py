"""Whitening by plain loops over groups, with numpy, for the tests of the fast version."""

import numpy as np


def group_whiten(
    z: np.ndarray, groups: int, order: list[int], method: str = "zca", eps: float = 0.0
) -> np.ndarray:
    """WhitenedCSE Eq. 3-6 on one view (N, D), one group at a time; the signs of pca's columns are
    arbitrary.
    """
    count, dim = z.shape
    size = dim // groups
    result = np.full((count, dim), np.nan)
    for group in range(groups):
        members = [order[place] for place in range(group * size, (group + 1) * size)]
        part = z[:, members].astype(np.float64)
        covariance = np.zeros((size, size))
        centre = part.sum(axis=0) / count
        for row in part:
            covariance += np.outer(row - centre, row - centre) / count
        values, vectors = np.linalg.eigh(covariance + eps * np.eye(size))
        matrix = vectors @ np.diag(values**-0.5)
        if method == "zca":
            matrix = matrix @ vectors.T
        whitened = (part - centre) @ matrix
        for place, member in enumerate(members):
            result[:, member] = whitened[:, place]
    return result


def momentum(batches: list[np.ndarray], beta: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """WhitenedCSE Eq. 13 as printed: the statistics (μ_n, Σ_n) that whiten batch n, of the batches
    before it.

    What comes before the first batch is not stated: its own mean, and its mean variance in every
    direction.
    """
    mean, covariance = (
        batches[0].mean(axis=0),
        np.eye(batches[0].shape[1]) * batches[0].var(axis=0).mean(),
    )
    found = []
    for batch in batches:
        found.append((mean, covariance))
        mean = beta * mean + (1 - beta) * batch.mean(axis=0)
        covariance = beta * covariance + (1 - beta) * np.cov(batch.T, bias=True)
    return found
