"""BM25 by plain loops."""

import math

import numpy as np


def weight(word: str, text: list[str], texts: list[list[str]], k1: float, b: float) -> float:
    """Robertson and Zaragoza, 2009, with Lucene's idf, which is never negative."""
    holding = sum(word in other for other in texts)
    idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
    mean_length = sum(len(other) for other in texts) / len(texts)
    times = text.count(word)
    return idf * times / (times + k1 * (1 - b + b * len(text) / mean_length)) if times else 0.0


def cosines(texts: list[list[str]], k1: float, b: float) -> np.ndarray:
    """(N, N) of the rows of weights; 0 for a text without words."""
    words = sorted({word for text in texts for word in text})
    rows = [[weight(word, text, texts, k1, b) for word in words] for text in texts]
    lengths = [math.sqrt(sum(x * x for x in row)) for row in rows]
    products = [[sum(x * y for x, y in zip(p, q, strict=True)) for q in rows] for p in rows]
    return np.array(
        [
            [products[i][j] / (m * n) if m * n else 0.0 for j, n in enumerate(lengths)]
            for i, m in enumerate(lengths)
        ]
    )
