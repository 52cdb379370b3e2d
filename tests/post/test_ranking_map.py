"""A map that is trained on rankings: the loss is RankCSE's, documents keep their vectors, plain
models have it.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from helpers.drawn import draw
from helpers.words import sentences
from isotrope.encoder import load, save
from isotrope.errors import UserError
from isotrope.evaluation.search import by_cosine, ranked_lists
from isotrope.post.ranking_map import mapped, ranking_loss, ranking_map, with_map
from oracle import ranking as oracle

RANDOM = np.random.default_rng(0)
TEXTS = ["a cat sat on a mat", "how do I list the files of a folder?", *sentences(20, seed=1)]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def turned(both: bool = False) -> tuple[np.ndarray, ...]:
    """Queries whose right documents are found only after a turn, and the turn's rankings."""
    turn = np.eye(16) + 0.15 * RANDOM.standard_normal((16, 16))
    queries, documents = (
        unit(RANDOM.standard_normal((600, 16))),
        unit(RANDOM.standard_normal((80, 16))),
    )
    teacher = by_cosine(queries @ turn, documents @ turn if both else documents)
    lists = ranked_lists([teacher], [1.0], np.full(600, -1), 80, 40)
    return queries, documents, lists.documents, lists.scores


def test_what_is_mapped_is_moved_and_gets_unit_length() -> None:
    x, matrix = RANDOM.standard_normal((5, 16)), RANDOM.standard_normal((16, 16))
    found = mapped(torch.from_numpy(x), torch.from_numpy(matrix))
    np.testing.assert_allclose(found, unit(x + x @ matrix), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_the_loss_is_listnet_of_scaled_cosines(dtype: torch.dtype, tolerance: float) -> None:
    q, d, teacher = draw(3, 5), draw(3, 4, 5, seed=1), torch.sigmoid(draw(3, 4, seed=2))
    expected = oracle.listnet(7 * torch.einsum("qd,qkd->qk", q, d), teacher, 1.0, 0.05, False)
    assert ranking_loss(*(rows.to(dtype) for rows in (q, d, teacher)), 7.0).item() == pytest.approx(
        expected, tolerance
    )


def test_gradient() -> None:
    q, d, w = (draw(*shape) for shape in ((3, 5), (3, 4, 5), (5, 5)))

    def loss(matrix: torch.Tensor) -> torch.Tensor:
        return ranking_loss(mapped(q, matrix), mapped(d, matrix), torch.sigmoid(draw(3, 4)), 7.0)

    assert torch.autograd.gradcheck(loss, w.requires_grad_())


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


def matrix_for(model: SentenceTransformer) -> np.ndarray:
    dim = model.get_embedding_dimension() or 0
    return 0.01 * RANDOM.standard_normal((dim, dim))


# with unit length, and without
@pytest.mark.parametrize("name", ["isotrope/small", "isotrope/tiny"])
def test_a_route_for_queries_leaves_documents_as_they_are_to_the_last_bit(
    tmp_path: Path, name: str
) -> None:
    model = load(name)
    matrix = matrix_for(model)
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
    with pytest.raises(UserError, match="reads queries in another way than documents"):
        load(tmp_path / "model", "cls")


def test_a_model_that_cuts_its_vectors_cuts_them_after_the_map(tmp_path: Path) -> None:
    model = load("isotrope/small")
    model.truncate_dim = 64
    matrix = 0.05 * RANDOM.standard_normal((64, 64))
    before = np.asarray(model.encode(TEXTS))
    new = with_map(model, matrix)
    save(new, tmp_path / "model")
    for one in (new, SentenceTransformer(str(tmp_path / "model"), device="cpu")):
        assert np.array_equal(one.encode_document(TEXTS), before)
        np.testing.assert_allclose(
            unit(one.encode_query(TEXTS)), unit(before + before @ matrix), atol=1e-5
        )
    assert model.truncate_dim == 64


def test_queries_keep_the_prompt_of_all_texts() -> None:
    """sentence-transformers would read queries with an empty prompt of their own."""
    model = load("isotrope/small", prompt="passage about: ")
    before = np.asarray(model.encode(TEXTS))
    new = with_map(model, 0 * matrix_for(model))
    np.testing.assert_allclose(new.encode_query(TEXTS), before, atol=1e-6)
    assert np.array_equal(new.encode_document(TEXTS), before)
