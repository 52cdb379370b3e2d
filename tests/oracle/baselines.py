"""The baselines by plain loops, from their papers, for the tests of the fast versions."""

import numpy as np


def whitening(x: np.ndarray, k: int, exponent: float = 0.5) -> np.ndarray:
    """Su et al., 2021, Algorithm 1: (N, D) -> (N, k), by power iteration; the signs are arbitrary.

    With another exponent than 0.5 a direction is divided by another power of its variance.
    """
    centred = np.array([row - sum(x) / len(x) for row in x])
    covariance = sum(np.outer(row, row) for row in centred) / len(x)
    columns = []
    for _ in range(k):
        direction = np.ones(len(covariance))
        for _ in range(5000):
            direction = covariance @ direction
            direction /= np.sqrt(direction @ direction)
        variance = direction @ covariance @ direction
        columns.append([row @ direction / variance**exponent for row in centred])
        covariance = covariance - variance * np.outer(direction, direction)
    return np.array(columns).T


def averaged(vectors: dict[str, list[float]], texts: list[str]) -> np.ndarray:
    rows = []
    for text in texts:
        known = [word for word in text.split() if word in vectors]
        total = np.zeros(len(next(iter(vectors.values()))))
        for word in known:
            total += np.array(vectors[word], dtype=float)
        rows.append(total / max(len(known), 1))
    return np.array(rows)
