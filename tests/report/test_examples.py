"""Searches as two models answer them."""

import numpy as np
from scipy.sparse import csr_array

from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.report.examples import examples, examples_table, first_hits


def test_searches_are_shown_that_one_model_answers_and_changed_hits_are_marked() -> None:
    texts = [f"text {number}" for number in range(8)]
    grades = csr_array(np.eye(4, 8))  # query i shall find text i
    domain = RetrievalSet("mine", [f"query {number}" for number in range(4)], texts, grades)
    old = np.array([[0, 5, 6], [5, 6, 7], [2, 5, 6], [5, 6, 7]])
    new = np.array([[5, 0, 6], [6, 1, 4], [5, 6, 7], [5, 6, 4]])
    shown = examples(domain, old, new)
    told = shown["told"]
    assert [of["query"] for of in told] == ["query 1", "query 2"], (
        "a gain and a loss; not what both or none answers"
    )
    assert told[0]["before"] == ["text 5", "text 6", "text 7"]
    assert told[0]["after"] == ["text 6", "→ ✓ text 1", "→ text 4"]
    assert told[1]["before"][0] == "✓ text 2"
    table = examples_table(shown, " · ")
    assert table.notes[0] == (
        "Of 4 searches, so many have a right text among their first 3: 1 only after, 1 only before."
    )
    rows = table.rows
    assert rows[0] == ["search", "query 1"]
    assert rows[2] == ["after", "text 6 · → ✓ text 1 · → text 4"]


def test_the_first_hits_are_the_nearest_and_a_text_does_not_find_itself() -> None:
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 2.0], [0.5, 0.5]])
    assert first_hits(vectors[:1], vectors).tolist() == [[0, 1, 3]]
    assert first_hits(vectors, vectors, np.arange(len(vectors)))[0].tolist() == [1, 3, 2]
