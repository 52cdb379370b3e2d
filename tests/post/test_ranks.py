"""Ranks among a corpus against scipy's Spearman, and the step behind a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from conftest import sentences
from isotrope.post.names import open_encoder
from isotrope.post.ranks import ranks


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_cosines_are_spearmans_correlations(share: float) -> None:
    corpus, x = drawn(30, 5), drawn(600, 5, seed=1)
    corpus[7] = corpus[3]  # equal cosines share a rank
    found = ranks(corpus, share)(x)
    assert found.shape == (600, 35 if share else 30)
    for i, j in ((0, 1), (5, 599), (2, 2)):
        lists = [[cosine(x[row], one) for one in corpus] for row in (i, j)]
        expected = share * cosine(x[i], x[j]) + (1 - share) * spearmanr(*lists).statistic
        assert cosine(found[i], found[j]) == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(ranks(corpus, share)(x[:3]), found[:3]), "row by row"


def test_it_stands_behind_a_model(tiny_model: Path, corpus_file: Path) -> None:
    text = sentences(5, seed=3)
    base = open_encoder(f"{tiny_model}@mean")
    found = open_encoder(f"{tiny_model}@mean+ranks:fit={corpus_file},sentences=60,k=40,share=0.25").encode(text)
    corpus = base.encode(corpus_file.read_text().splitlines()[:40])
    expected = ranks(np.asarray(corpus, np.float64), 0.25)(np.asarray(base.encode(text), np.float64))
    assert found.shape == (5, 72)
    assert np.allclose(found, expected, atol=1e-4)
