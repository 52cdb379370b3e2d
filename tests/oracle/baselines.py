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


def all_but_the_top(x: np.ndarray, k: int) -> np.ndarray:
    """Mu and Viswanath, 2018, Algorithm 1, of centred rows: (N, D) -> (N, D), a direction after the
    other.
    """
    rows = [row - sum(x) / len(x) for row in x]
    for _ in range(k):
        direction = np.ones(len(rows[0]))
        for _ in range(5000):
            direction = sum((row @ direction) * row for row in rows)
            direction /= np.sqrt(direction @ direction)
        rows = [row - (row @ direction) * direction for row in rows]
    return np.array(rows)


def averaged(
    vectors: dict[str, list[float]], texts: list[str], weight=lambda word: 1.0
) -> np.ndarray:
    rows = []
    for text in texts:
        known = [word for word in text.split() if word in vectors]
        total = np.zeros(len(next(iter(vectors.values()))))
        for word in known:
            total += weight(word) * np.array(vectors[word], dtype=float)
        rows.append(total / max(len(known), 1))
    return np.array(rows)


def sif(
    vectors: dict[str, list[float]], texts: list[str], counts: dict[str, int], a: float, remove: int
) -> np.ndarray:
    """Arora et al., 2017, Algorithm 1, with as many directions removed as asked."""
    rows = averaged(
        vectors, texts, lambda word: a / (a + counts.get(word, 0) / sum(counts.values()))
    )
    directions = np.linalg.svd(rows)[2]
    for direction in directions[:remove]:
        rows = np.array([row - (row @ direction) * direction for row in rows])
    return rows
