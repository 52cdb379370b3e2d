"""A map that is trained on rankings: the loss is RankCSE's, documents keep their vectors, plain models have it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load, save
from isotrope.errors import UserError
from isotrope.evaluation.rankings import by_cosine, ranked_lists
from isotrope.post.ranking_map import mapped, ranking_map, with_map

RANDOM = np.random.default_rng(0)
TEXTS = ["a cat sat on a mat", "how do I list the files of a folder?", "whales are mammals"]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def turned(both: bool = False) -> tuple[np.ndarray, ...]:
    """Queries whose right documents are found only after a turn, and the turn's rankings."""
    turn = np.eye(16) + 0.15 * RANDOM.standard_normal((16, 16))
    queries, documents = unit(RANDOM.standard_normal((600, 16))), unit(RANDOM.standard_normal((80, 16)))
    teacher = by_cosine(queries @ turn, documents @ turn if both else documents)
    lists = ranked_lists([teacher], [1.0], np.full(600, -1), 80, 40)
    return queries, documents, lists.documents, lists.scores


def test_zero_changes_no_direction() -> None:
    x = torch.randn(5, 16, dtype=torch.float64)
    torch.testing.assert_close(mapped(x, torch.zeros(16, 16, dtype=torch.float64)), torch.nn.functional.normalize(x))


@pytest.mark.parametrize("both", [False, True])
def test_it_learns_to_rank_as_its_teacher(both: bool) -> None:
    queries, documents, lists, teacher = turned(both)
    matrix = ranking_map(queries, documents, lists, teacher, both=both)

    def agreement(weights: np.ndarray) -> float:
        q = unit(queries + queries @ weights)
        d = unit(documents + documents @ weights) if both else documents
        own = np.take_along_axis(q @ d.T, lists, axis=1)
        return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(own, teacher, strict=True)]))

    assert agreement(matrix) > agreement(np.zeros((16, 16))) + 0.02


def test_equal_seeds_give_equal_maps() -> None:
    given = turned()
    assert np.array_equal(ranking_map(*given, seed=3), ranking_map(*given, seed=3))
    assert not np.array_equal(ranking_map(*given, seed=3), ranking_map(*given, seed=4))


@pytest.mark.parametrize("name", ["isotrope/small", "isotrope/tiny"])  # with unit length, and without
def test_a_route_for_queries_leaves_documents_as_they_are_to_the_last_bit(tmp_path: Path, name: str) -> None:
    model = load(name)
    dim = model.get_embedding_dimension() or 0
    matrix = 0.01 * RANDOM.standard_normal((dim, dim))
    before = np.asarray(model.encode(TEXTS))
    new = with_map(model, matrix)
    save(new, tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    for one in (new, plain, load(tmp_path / "model")):
        assert np.array_equal(one.encode_document(TEXTS), before)
        assert np.array_equal(one.encode(TEXTS), before)
        found = np.asarray(one.encode_query(TEXTS))
        np.testing.assert_allclose(unit(found), unit(before + before @ matrix), atol=1e-5)
    assert np.array_equal(model.encode(TEXTS), before)


def test_a_map_of_both_sides_is_a_layer() -> None:
    model = load("isotrope/small")
    dim = model.get_embedding_dimension() or 0
    matrix = 0.01 * RANDOM.standard_normal((dim, dim))
    before, after = (np.asarray(one.encode(TEXTS)) for one in (model, with_map(model, matrix, both=True)))
    np.testing.assert_allclose(after, unit(before + before @ matrix), atol=1e-5)


def test_a_model_that_cuts_its_vectors_gets_no_route() -> None:
    model = load("isotrope/small")
    model.truncate_dim = 64
    with pytest.raises(UserError, match="cannot get a route for queries: map both sides"):
        with_map(model, np.zeros((64, 64)))
