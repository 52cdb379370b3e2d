"""Naive forms of the similarity evaluation, an encoder that anyone can write, and where the real
data lies.
"""

import os
import zlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ISOTROPE_DATA") or REPOSITORY.parent / "shared" / "data")
GOLDEN = DATA.parent / "golden"

needs_data = pytest.mark.skipif(
    not (DATA / "senteval").is_dir(), reason="needs senteval/ in ISOTROPE_DATA"
)
needs_golden = pytest.mark.skipif(
    not (GOLDEN / "senteval.json").is_file(), reason="needs golden/ beside ISOTROPE_DATA"
)


class HashEncoder:
    """A word is 64 normal numbers seeded by its checksum, a sentence the float32 mean of its words."""

    def __init__(self):
        self.words = {}
        self.calls = []

    def word(self, word):
        if word not in self.words:
            generator = np.random.Generator(np.random.PCG64(zlib.crc32(word.encode("utf-8"))))
            self.words[word] = generator.standard_normal(64).astype(np.float32)
        return self.words[word]

    def encode(self, sentences):
        self.calls.append(list(sentences))
        return np.stack(
            [np.mean([self.word(w.lower()) for w in s.split() or ["."]], axis=0) for s in sentences]
        )


def ranks(values):
    """Mean ranks by counting: those below, and half of the equals."""
    return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]


def spearman(x, y):
    a, b = ranks(x), ranks(y)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    covariance = sum((i - ma) * (j - mb) for i, j in zip(a, b, strict=True))
    return covariance / (sum((i - ma) ** 2 for i in a) * sum((j - mb) ** 2 for j in b)) ** 0.5


def unit(row):
    return row / np.sqrt(sum(value * value for value in row))


def alignment(x, y):
    return np.mean([sum((unit(a) - unit(b)) ** 2) for a, b in zip(x, y, strict=True)])


def uniformity(x):
    return np.log(
        np.mean([np.exp(-2 * sum((unit(a) - unit(b)) ** 2)) for a, b in combinations(x, 2)])
    )


def mean_cosine(x):
    return np.mean([unit(a) @ unit(b) for a, b in combinations(x, 2)])
