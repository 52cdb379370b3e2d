"""Retrieval and clustering measures against naive forms; ties never help; fused rankings; real
domains.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from isotrope import load
from isotrope.evaluation import search
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.retrieval import evaluate_retrieval, v_measures
from isotrope.evaluation.search import fused, ranked_lists, search_with
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, same_class
from oracle import retrieval as naive
from oracle.similarity import DATA, HashEncoder

needs_domains = pytest.mark.skipif(
    not (DATA / "domain").is_dir(), reason="needs domain/ in ISOTROPE_DATA"
)


def lookup(table: np.ndarray) -> Embeddings:
    """An encoder of texts that are row numbers of a table."""
    return Embeddings([str(row) for row in range(len(table))], table)


def graded(seed: int, q: int = 17, m: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors with many ties (coordinates -1, 0, 1) and grades 0 to 3; every query has something to
    find.
    """
    generator = np.random.default_rng(seed)
    queries, corpus = (generator.integers(-1, 2, size=(n, 4)).astype(np.float32) for n in (q, m))
    queries[:, 0], corpus[:, 0] = 1, 1  # no zero vector
    grades = generator.integers(0, 4, size=(q, m)) * (generator.random((q, m)) < 0.2)
    grades[:, 0] = 1
    return queries, corpus, grades.astype(float)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("own", [False, True])
def test_measures_equal_naive_ones_with_ties_and_grades(
    seed: int, k: int, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BLOCK", 100)  # several blocks, the last one smaller
    queries, corpus, grades = graded(seed)
    if own:
        queries, grades = corpus, graded(seed, q=len(corpus))[2]
        grades[0, 1] = 1
        np.fill_diagonal(grades, 0)
    own_documents = np.arange(len(queries)) if own else None
    ranked = search.rank_search(
        search.by_cosine(queries, corpus), csr_array(grades), k, own_documents
    )
    orders = [
        naive.order(query, corpus, grades[i], i if own else None) for i, query in enumerate(queries)
    ]
    for ours, measure in (
        (search.ndcg_at, naive.ndcg),
        (search.reciprocal_rank, naive.reciprocal_rank),
        (search.recall_at, naive.recall),
    ):
        expected = [measure(order, grade, k) for order, grade in zip(orders, grades, strict=True)]
        np.testing.assert_allclose(ours(ranked, k), expected, atol=1e-12)


def test_a_perfect_encoder_earns_all_and_a_collapsed_one_nothing() -> None:
    domain = same_class("toy", [str(i) for i in range(60)], [str(i % 4) for i in range(60)])
    perfect = evaluate_retrieval(lookup(np.eye(4)[np.arange(60) % 4]), domain)
    assert (
        perfect["ndcg@10"]
        == perfect["mrr@10"]
        == perfect["recall@100"]
        == perfect["v_measure"]
        == pytest.approx(1)
    )
    assert perfect["recall@10"] == pytest.approx(10 / 14)
    assert (perfect["queries"], perfect["corpus"]) == (60, 60)
    collapsed = evaluate_retrieval(lookup(np.ones((60, 4))), domain)
    assert (
        collapsed["ndcg@10"]
        == collapsed["mrr@10"]
        == collapsed["recall@10"]
        == collapsed["v_measure"]
        == 0
    )


def test_queries_with_nothing_to_find_are_left_out() -> None:
    table = np.random.default_rng(0).normal(size=(9, 4))
    grades = np.zeros((3, 6))
    grades[0, 1] = grades[2, 5] = 1
    texts = [str(i) for i in range(9)]
    found = evaluate_retrieval(
        lookup(table), RetrievalSet("toy", texts[:3], texts[3:], csr_array(grades))
    )
    assert found["queries"] == 2
    assert found["mrr@10"] == pytest.approx(
        np.mean(
            [
                naive.reciprocal_rank(naive.order(table[i], table[3:], grades[i]), grades[i], 10)
                for i in (0, 2)
            ]
        )
    )
    assert "v_measure" not in found


@needs_domains
def test_a_real_domain_with_an_encoder_that_anyone_can_write() -> None:
    found = evaluate_retrieval(HashEncoder(), load_retrieval_set(DATA, "CACM"))
    assert (found["queries"], found["corpus"]) == (52, 3204)
    # words alone: far above chance, far below a model
    assert 0.03 < found["ndcg@10"] < found["mrr@10"] < 0.3


def folder(place: Path) -> Path:
    for name, texts in {
        "corpus": ["a cat eats", "a dog runs in the snow", "rain falls"],
        "queries": ["what does the cat do", "what falls", "nothing"],
    }.items():
        (place / f"{name}.tsv").write_text(
            "".join(f"{i}\t{text}\n" for i, text in enumerate(texts))
        )
    (place / "qrels.txt").write_text("0 0 0 1\n1 0 2 1\n")
    return place


@pytest.mark.parametrize(
    "prompts", [{}, {"query": "rain falls ", "document": ""}], ids=["plain", "with roles"]
)
def test_a_domain_scores_each_query_that_has_something_to_find(
    tiny_model: Path, tmp_path: Path, prompts: dict[str, str]
) -> None:
    task, encoder = read_labels(folder(tmp_path)), load(tiny_model)
    known = Embeddings.of(encoder, task.texts)
    encoder.prompts = prompts
    wanted = evaluate_retrieval(encoder, task)["per_query"]["ndcg@10"]
    assert (task.name, len(wanted)) == (tmp_path.name, 2)
    for each in (encoder,) if prompts else (encoder, known):
        np.testing.assert_allclose(task.score(each), wanted, atol=1e-9)


def test_a_part_has_fewer_queries_with_all_that_they_shall_find(tmp_path: Path) -> None:
    task = read_labels(folder(tmp_path))
    assert task.part(3) is task
    part = task.part(1)
    assert (part.size, part.queries) == (1, ["what does the cat do"])
    assert "a cat eats" in part.corpus
    assert part.grades.shape == (1, len(part.corpus))
    (tmp_path / "mine.tsv").write_text("".join(f"text {i}\t{i // 4}\n" for i in range(8)))
    own = read_labels(tmp_path / "mine.tsv").part(4)
    assert own.own
    assert own.corpus == own.queries == ["text 0", "text 2", "text 4", "text 6"]
    assert own.grades.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


def test_v_measure_knows_classes_from_noise_and_repeats_itself() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 40)
    apart = 10 * np.eye(5)[labels] + generator.normal(size=(200, 5))
    noise = generator.normal(size=(200, 5))
    assert v_measures(noise, labels).mean() < 0.2 < 0.7 < v_measures(apart, labels).mean()
    np.testing.assert_array_equal(v_measures(noise, labels), v_measures(noise, labels))
    assert len(set(v_measures(noise, labels))) > 1  # each run has its own start


ONE, TWO = np.random.default_rng(0).standard_normal((2, 7, 30)).astype(np.float32) * [[[1]], [[40]]]


def naive_fused(matrices: list[np.ndarray], weights: list[float]) -> np.ndarray:
    total = np.zeros(matrices[0].shape)
    for matrix, weight in zip(matrices, weights, strict=True):
        for i, row in enumerate(matrix):
            for j, score in enumerate(row):
                total[i, j] += weight * (score - min(row)) / (max(row) - min(row))
    return total


def test_a_fusion_equals_loops() -> None:
    """A search that gives all documents the same score adds nothing."""
    found = search_with([lambda rows: ONE[rows], lambda rows: TWO[rows]], [0.3, 0.7])(slice(2, 5))
    np.testing.assert_allclose(found, naive_fused([ONE, TWO], [0.3, 0.7])[2:5], atol=1e-6)
    np.testing.assert_array_equal(
        fused([ONE, np.full_like(ONE, 5)], [0.5, 0.5]), fused([ONE], [0.5])
    )


@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_lists_hold_the_best_documents_but_a_query_s_own(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BLOCK", block)
    own = np.array([3, -1, 29, 0, 3, -1, 8])
    found = ranked_lists([lambda rows: ONE[rows], lambda rows: TWO[rows]], [0.5, 0.5], own, 30, 10)
    whole = naive_fused([ONE, TWO], [0.5, 0.5])
    for query, row in enumerate(whole):
        best = [document for document in np.argsort(-row) if document != own[query]][:10]
        assert sorted(found.documents[query]) == sorted(best)
        np.testing.assert_allclose(found.scores[query], row[found.documents[query]], atol=1e-6)
    assert ranked_lists([lambda rows: ONE[:2][rows]], [1.0], own[:2], 30).documents.shape == (
        2,
        29,
    ), "all but one"
