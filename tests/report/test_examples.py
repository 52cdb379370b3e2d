"""Searches as two models answer them."""

from dataclasses import asdict

import numpy as np
from scipy.sparse import csr_array

from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.report.examples import Answers, SearchChanges, compare_searches, examples_table

TEXTS = [f"text {number}" for number in range(8)]
QUERIES = [f"query {number}" for number in range(4)]
SEARCHES = RetrievalSet("mine", QUERIES, TEXTS, csr_array(np.eye(4, 8)))  # query i, text i


def embedded(order: list[list[int]]) -> Embeddings:
    """Vectors with which query i finds the texts of ``order[i]`` first, in this order."""
    queries = np.zeros((len(order), len(TEXTS)))
    for row, texts in enumerate(order):
        queries[row, texts] = 1.0 - 0.1 * np.arange(len(texts))
    return Embeddings(TEXTS, np.eye(len(TEXTS)), Embeddings(QUERIES, queries))


BEFORE = embedded([[0, 5, 6], [5, 6, 7, 1], [2, 5, 6], [5, 6, 7, 4, 3]])
AFTER = embedded([[5, 0, 6], [6, 1, 4], [5, 6, 7, 2], [5, 6, 4, 3]])
CHANGES = SearchChanges.of(SEARCHES, Answers.of(SEARCHES, BEFORE), Answers.of(SEARCHES, AFTER))


def test_searches_are_shown_that_one_model_answers() -> None:
    assert [search.query for search in CHANGES.told] == ["query 1", "query 2"], (
        "a gain and a loss; not what both or none answers"
    )


def test_right_and_new_texts_are_marked() -> None:
    gain, loss = CHANGES.told
    assert gain.before == ["text 5", "text 6", "text 7"]
    assert gain.after == ["text 6", "→ ✓ text 1", "→ text 4"]
    assert loss.before[0] == "✓ text 2"


def test_every_search_counts_by_the_place_of_its_first_right_text() -> None:
    """As the verdict does: equal counts of answered searches stood below a *better*."""
    assert (CHANGES.queries, CHANGES.earlier, CHANGES.later) == (4, 2, 2)


def test_the_table_has_three_rows_a_search() -> None:
    table = examples_table(asdict(CHANGES))
    assert table.rows[0] == ["search", "query 1"]
    assert table.rows[2] == ["after", "text 6\n→ ✓ text 1\n→ text 4"]
    assert table.notes[0] == (
        "Of 4 searches, 2 find their first right text earlier than before, and 2 later."
    )


def test_a_text_does_not_find_itself() -> None:
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 2.0], [0.5, 0.5]])
    points = Embeddings(list("abcd"), vectors)
    others = RetrievalSet("mine", list("abcd"), list("abcd"), csr_array(np.eye(4)[::-1]))
    assert Answers.of(others, points).hits[0].tolist() == [0, 1, 3]
    itself = RetrievalSet("mine", list("abcd"), list("abcd"), others.grades, np.arange(4))
    assert Answers.of(itself, points).hits[0].tolist() == [1, 3, 2]


def test_a_record_says_how_often_each_model_finds_a_right_text_first() -> None:
    record = compare_searches(SEARCHES, BEFORE, AFTER)
    assert record["first"] == [0.5, 0.0]
