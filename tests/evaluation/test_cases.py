"""Case tables: one query, and where each model puts its sentences."""

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.ranking import RankingList, case_table, find_list
from oracle.similarity import HashEncoder


class Letters:
    """A sentence is its count of each letter: equal sets of letters have equal vectors."""

    def encode(self, sentences):
        return np.array([[1.0, *(s.count(letter) for letter in "abcdef")] for s in sentences])


def test_case_table():
    rows = case_table({"letters": Letters(), "hash": HashEncoder()}, "abc", ["d", "abc", "ab", "ab"], [1, 5, 3, 3])
    assert [(r["sentence"], r["gold"], r["gold_rank"]) for r in rows] == [
        ("abc", 5, 1), ("ab", 3, 2), ("ab", 3, 2), ("d", 1, 4),
    ]  # fmt: skip
    assert [r["models"]["letters"]["rank"] for r in rows] == [1, 2, 2, 4]
    assert rows[0]["models"]["hash"]["cosine"] == pytest.approx(1)
    unscored = case_table({"letters": Letters()}, "abc", ["d", "abc"])
    assert [r["sentence"] for r in unscored] == ["d", "abc"]
    assert unscored[0]["gold_rank"] is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: case_table({}, "abc", []), "no sentence"),
        (lambda: case_table({}, "abc", ["d"], [1, 2]), "2 scores for 1"),
        (lambda: find_list([RankingList("A man", ["x"], np.ones(1))], "a woman"), "try 'A man'"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(UserError, match=words):
        call()
