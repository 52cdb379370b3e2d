"""Vectors and word vectors whose answers can be worked out by hand."""

from pathlib import Path

import numpy as np

TEXT = ["the cat sat", "the dog", "a cat and a dog", "the the the", "no such word", "sat dog a"]


def anisotropic(rows=200, dimensions=6, seed=0):
    """Rows with a large common mean, correlated channels and unlike variances: what raw backbones
    give.
    """
    generator = np.random.default_rng(seed)
    mixing = generator.standard_normal((dimensions, dimensions)) * generator.exponential(
        size=dimensions
    )
    return generator.standard_normal((rows, dimensions)) @ mixing + 5


class Rows:
    """An encoder whose vectors are drawn for each sentence anew: the same for the same sentence."""

    def __init__(self, dimensions=6):
        self.dimensions, self.calls = dimensions, []

    def encode(self, texts):
        self.calls.append(list(texts))
        seeds = [[ord(c) for c in text] for text in texts]
        return np.stack([anisotropic(1, self.dimensions, seed)[0] for seed in seeds]).astype(
            np.float32
        )


VECTORS = {
    "the": [1, 0, 0],
    "cat": [0, 2, 0],
    "dog": [0, 0, 3],
    "a": [1, 1, 1],
    "sat": [-1, 2, 0.5],
    "Paris": [9, 9, 9],
}


def write_word_vectors(folder: Path) -> Path:
    """A file of GloVe's format with the vectors above."""
    path = folder / "glove.txt"
    path.write_text(
        "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items())
    )
    return path
