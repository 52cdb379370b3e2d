"""BM25 as a teacher equals a naive BM25."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import isotrope.teachers.bm25 as module
from helpers.refusals import refused
from helpers.teaching import batch, known, teacher
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Texts
from oracle import bm25 as naive

TEXTS = [
    "the cat sat on the mat", "The cat, the cat and a dog", "a dog sat", "no such word here but the", "— … !",
    "東京は日本の首都", "京都は日本",
]  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> Texts:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return read_text(tmp_path / "texts.txt").texts()


def words(text: str) -> list[str]:
    return re.findall(r"[\u3040-\u9fff]|[a-z]+", text.lower())


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.0, 0.75), (0.9, 0.0), (2.0, 1.0)])
def test_cosines_are_those_of_a_naive_bm25(small: Texts, k1: float, b: float) -> None:
    texts = small.texts(np.arange(len(small)))
    rows = teacher("bm25", known(small), k1=k1, b=b)(batch(*range(len(texts))))
    np.testing.assert_allclose(
        rows @ rows.T, naive.cosines(list(map(words, texts)), k1, b), atol=1e-6
    )


def test_a_batch_has_the_columns_of_its_own_words(corpus: Texts) -> None:
    """And the cosines are those of the whole corpus."""
    taught = teacher("bm25", known(corpus))
    few, many = taught(batch(3, 5, 3)), taught(batch(*range(600)))
    assert few.shape[1] < many.shape[1]
    torch.testing.assert_close(few @ few.T, (many @ many.T)[[3, 5, 3]][:, [3, 5, 3]])


def test_several_processes_agree_on_the_columns(
    corpus: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gives its own rows; joined, they are those of one process."""
    taught = teacher("bm25", known(corpus))
    every = batch(*range(12)).rows
    whole = taught(batch(*range(12)))
    monkeypatch.setattr(module, "gather_rows", lambda rows: every)
    joined = torch.cat([taught(batch(*range(6))), taught(batch(*range(6, 12)))])
    assert torch.equal(joined, whole)


def test_of_a_sample_idf_counts_the_sample(small: Texts) -> None:
    rows = np.array([2, 0, 3])
    texts = [words(text) for text in small.texts(np.sort(rows))]
    found = teacher("bm25", known(small, rows=rows))(batch(0, 2, 3))
    np.testing.assert_allclose(found @ found.T, naive.cosines(texts, 1.5, 0.75), atol=1e-6)
    with refused("unknown-row"):
        teacher("bm25", known(small, rows=rows))(batch(1))


def test_text_without_words_is_one_line() -> None:
    with refused("no-words"):
        Bm25Index.of(iter(["…", "!?"]))


def test_a_search_sums_the_weights_of_the_query_s_words() -> None:
    texts = [words(text) for text in TEXTS]
    index, queries = Bm25Index.of(TEXTS), ["the dog, the dog", "京 cat", "unknown"]
    expected = [
        [sum(naive.weight(w, text, texts, 1.5, 0.75) for w in set(words(q))) for text in texts]
        for q in queries
    ]
    np.testing.assert_allclose(index.scores(queries), expected, atol=1e-6)
