"""Word vectors against a double loop and numpy's decomposition."""

import math

import numpy as np
import pytest

from isotrope.pretraining.vectors import cooccurrence, factorise, ppmi, warm_embeddings

STREAM = np.array([2, 5, 6, 7, 3, 2, 6, 8, 5, 5, 9, 3, 2, 7, 3, 2, 5, 9, 6, 3], dtype=np.uint16)


def counted_naively(ids, window: int, vocabulary: int) -> np.ndarray:
    counts, sentence = np.zeros((vocabulary, vocabulary)), np.cumsum(ids == 2)
    for i in range(len(ids)):
        for j in range(len(ids)):
            near = i != j and abs(i - j) <= window and sentence[i] == sentence[j]
            if near and ids[i] >= 5 and ids[j] >= 5:
                counts[ids[i], ids[j]] += 1
    return counts


@pytest.mark.parametrize("at_a_time", [1, 3, 7, 1000])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_cooccurrences_are_counted_as_a_double_loop_counts_them(monkeypatch, window, at_a_time):
    monkeypatch.setattr("isotrope.pretraining.vectors.TOKENS_AT_A_TIME", at_a_time)
    assert np.array_equal(cooccurrence(STREAM, 2, 5, 10, window).toarray(), counted_naively(STREAM, window, 10))


def test_ppmi_is_the_positive_log_ratio_with_smoothed_contexts():
    counts = counted_naively(STREAM, 2, 10)
    found = ppmi(cooccurrence(STREAM, 2, 5, 10, 2)).toarray()
    total, row = counts.sum(), counts.sum(1)
    for a in range(10):
        for b in range(10):
            expected = 0.0
            if counts[a, b]:
                context = row[b] ** 0.75 / (row**0.75).sum()
                expected = max(0.0, math.log(counts[a, b] / total / (row[a] / total * context)))
            assert found[a, b] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_vectors_are_the_truncated_singular_vectors_scaled_by_root_values():
    matrix = ppmi(cooccurrence(STREAM, 2, 5, 10, 2))
    left, values, _ = np.linalg.svd(matrix.toarray())
    expected = left[:, :3] * np.sqrt(values[:3])
    found = factorise(matrix, 3, seed=0)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-4)  # equal but for the signs


def test_warm_embeddings_keep_cold_rows_for_tokens_without_a_vector():
    cold = np.full((12, 3), 7.0, dtype=np.float32)
    warm = warm_embeddings(STREAM, cold, 2, 5, 2, scale=0.06, seed=0)
    assert (warm[[0, 1, 2, 3, 4, 10, 11]] == 7.0).all()
    assert np.sqrt(np.mean(warm[5:10] ** 2)) == pytest.approx(0.06, rel=1e-5)
