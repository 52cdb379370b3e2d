"""Fused rankings equal loops, and the lists that are cut from them hold the best documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from isotrope.evaluation.rankings import fused, ranked_lists, search_with
from isotrope.evaluation.retrieval import OwnTask, by_cosine
from isotrope.evaluation.sets.domain import Domain

RANDOM = np.random.default_rng(0)


def scores(queries: int = 7, documents: int = 30) -> np.ndarray:
    return RANDOM.standard_normal((queries, documents)).astype(np.float32)


def naive_fused(matrices: list[np.ndarray], weights: list[float]) -> np.ndarray:
    total = np.zeros(matrices[0].shape)
    for matrix, weight in zip(matrices, weights, strict=True):
        for i, row in enumerate(matrix):
            for j, score in enumerate(row):
                total[i, j] += weight * (score - min(row)) / (max(row) - min(row))
    return total


def test_a_fusion_equals_loops() -> None:
    one, two = scores(), 40 * scores() + 3
    np.testing.assert_allclose(fused([one, two], [0.3, 0.7]), naive_fused([one, two], [0.3, 0.7]), atol=1e-6)


def test_a_teacher_that_cannot_tell_documents_apart_adds_nothing() -> None:
    one = scores()
    np.testing.assert_array_equal(fused([one, np.full_like(one, 5)], [0.5, 0.5]), fused([one], [0.5]))


@given(shift=st.floats(-5, 5, width=32), scale=st.floats(0.25, 8, width=32))
def test_neither_the_zero_nor_the_unit_of_a_score_counts(shift: float, scale: float) -> None:
    one = np.linspace(-1, 1, 20, dtype=np.float32).reshape(2, 10) ** 3
    np.testing.assert_allclose(fused([scale * one + shift], [1]), fused([one], [1]), atol=1e-4)


@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_lists_hold_the_best_documents_but_a_query_s_own(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.evaluation.rankings._BLOCK", block)
    one, two, own = scores(), scores(), np.array([3, -1, 29, 0, 3, -1, 8])
    found = ranked_lists([lambda rows: one[rows], lambda rows: two[rows]], [0.5, 0.5], own, 30, 10)
    whole = naive_fused([one, two], [0.5, 0.5])
    for query, row in enumerate(whole):
        best = [document for document in np.argsort(-row) if document != own[query]][:10]
        assert sorted(found.documents[query]) == sorted(best)
        np.testing.assert_allclose(found.scores[query], row[found.documents[query]], atol=1e-6)


def test_a_search_with_two_is_the_fusion_of_their_scores() -> None:
    one, two = scores(), scores()
    found = search_with([lambda rows: one[rows], lambda rows: two[rows]], [0.3, 0.7])(slice(2, 5))
    np.testing.assert_array_equal(found, fused([one, two], [0.3, 0.7])[2:5])


@pytest.mark.parametrize("block", [1, 10_000])
def test_a_text_that_searches_its_own_corpus_does_not_find_itself(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.evaluation.retrieval._BLOCK", block)
    texts = [f"text {i}" for i in range(6)]
    grades = csr_array((np.ones(6), (np.arange(6), (np.arange(6) + 1) % 6)), shape=(6, 6))  # the next text
    task = OwnTask(Domain("own", texts, texts, grades, own=True))
    found = task.score_search(lambda rows: (10 * np.eye(6) + np.roll(np.eye(6), 1, axis=1))[rows])
    np.testing.assert_allclose(found, 1.0)


def test_of_few_documents_all_but_one_are_listed() -> None:
    one = scores(2, 4)
    assert ranked_lists([lambda rows: one[rows]], [1.0], np.array([0, 1]), 4).documents.shape == (2, 3)


def test_a_model_ranks_by_cosine() -> None:
    q, d = scores(3, 8), scores(5, 8)
    expected = [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in d] for x in q]
    np.testing.assert_allclose(by_cosine(q, d)(slice(0, 3)), expected, atol=1e-6)
