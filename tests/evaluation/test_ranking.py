"""The ranking tasks of RankCSE's Appendix G: the lists of the papers, and the measures by their
definitions.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.ranking import (
    RankingChoices,
    case_table,
    find_list,
    kendall,
    ndcg_of,
    rank_sets,
    ranking_lists,
)
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.senteval import load_sts
from oracle import ranking_tasks as naive
from oracle.similarity import DATA, HashEncoder, needs_data

values = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from("abc"))
def test_kendall_equals_the_definition(pairs, tau):
    x, y = np.array(pairs, dtype=float).T
    assert kendall(x, y, tau) == pytest.approx(
        naive.kendall(x.tolist(), y.tolist(), tau), abs=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from(["linear", "exponential"]), st.sampled_from([None, 1, 3, 50]))
def test_ndcg_equals_the_mean_over_the_orders_of_the_tied(pairs, gain, at):
    x, y = np.array(pairs, dtype=float).T
    assert ndcg_of(x, y, gain, at) == pytest.approx(
        naive.ndcg(x.tolist(), y.tolist(), gain, at), abs=1e-12
    )


@needs_data
@pytest.mark.parametrize(
    "choices", [RankingChoices(), RankingChoices(tau="c", at=3, side="first", duplicates="mean")]
)
def test_each_list_is_measured_by_the_cosines_of_its_query(choices):
    encoder, pairs = HashEncoder(), load_sts(DATA, "STS12").values()
    got = rank_sets(encoder, {"STS12": pairs}, choices)["STS12"]
    lists = [one for one in ranking_lists(pairs, choices) if np.ptp(one.gold) > 0]
    known = Embeddings.of(encoder, (s for one in lists for s in (one.name, *one.second)))
    for one, tau, gain in zip(
        lists, got["per_list"]["kendall"], got["per_list"]["ndcg"], strict=True
    ):
        cosines = one.similarities(known)
        assert tau == pytest.approx(
            naive.kendall(cosines.tolist(), one.gold.tolist(), choices.tau), abs=1e-12
        )
        assert gain == ndcg_of(cosines, one.gold, at=choices.at)
    assert (got["lists"], got["pairs"]) == (len(lists), sum(map(len, lists)))
    assert got["kendall"] == pytest.approx(np.mean(got["per_list"]["kendall"]), abs=1e-12)


@needs_data
def test_the_lists_of_the_papers_tables():
    """Table 1's second query joins the train and test files of SICK; Table 12's first shows five of
    eight sentences.
    """
    sick = ranking_lists(load_sts(DATA, "SICKRelatedness", ("train", "dev", "test")).values())
    broccoli = find_list(sick, "A woman is cutting broccoli")
    printed = {
        "Broccoli are being cut by a woman": 4.8,
        "A woman is slicing vegetables": 4.2,
        "A woman is cutting some plants": 3.5,
        "There is no woman cutting broccoli": 3.4,
        "A woman is cutting some flowers": 2.865,
        "A man is slicing tomatoes": 2.6,
        "A man is cutting tomatoes": 2.4,
    }
    assert printed.items() <= dict(zip(broccoli.second, broccoli.gold, strict=True)).items()
    with pytest.raises(UserError, match="broccoli"):  # the test split alone has two of these pairs
        find_list(
            ranking_lists(load_sts(DATA, "SICKRelatedness", ("test",)).values()),
            "A woman is cutting broccoli",
        )
    bulbs = find_list(
        ranking_lists(load_sts(DATA, "STS15").values()), "a and c are in the same closed path"
    )
    assert len(bulbs.second) == 8
    assert {3.6, 2.8, 1.6, 1.2, 0.6} <= set(bulbs.gold)


@needs_data
@pytest.mark.parametrize("side", ["either", "first", "second"])
def test_lists_equal_the_definition(side):
    parts = load_sts(DATA, "STS16").values()
    pairs = [row for p in parts for row in zip(p.first, p.second, p.gold.tolist(), strict=True)]
    got = ranking_lists(parts, RankingChoices(side=side))
    found = {one.name: list(zip(one.second, one.gold.tolist(), strict=True)) for one in got}
    assert found == naive.lists(pairs, side, 3)


@needs_data
def test_counts_and_the_door():
    result = suite.run(HashEncoder(), "ranking", DATA, ["STS12", "STS16"])
    assert {task: (r["lists"], r["constant"]) for task, r in result.items()} == {
        "STS12": (105, 14),
        "STS16": (46, 9),
    }
    assert json.loads(json.dumps(result)) == result
    every, tested = (
        suite.run(HashEncoder(), "ranking", DATA, ["STSBenchmark"], key) for key in ("all", "test")
    )
    assert every["STSBenchmark"]["lists"] > tested["STSBenchmark"]["lists"]


class Letters:
    """A sentence is its count of each letter: equal sets of letters have equal vectors."""

    def encode(self, sentences):
        return np.array([[1.0, *(s.count(letter) for letter in "abcdef")] for s in sentences])


def star(golds, query="abc"):
    """A query in the middle, compared with other sentences on either side."""
    others = ["abc", "ab", "a", "d", "de", "def"][: len(golds)]
    sides = [(query, other) if i % 2 else (other, query) for i, other in enumerate(others)]
    return GradedPairs(
        "star", [a for a, _ in sides], [b for _, b in sides], np.array(golds, dtype=float)
    )


def test_a_query_exceeds_three_pairs_which_are_kept_or_merged():
    """A pair of a sentence with itself counts once."""
    assert ranking_lists([star([3, 2, 1])]) == []
    (one,) = ranking_lists([star([4, 3, 2, 1])])
    assert (one.name, one.second) == ("abc", ["abc", "ab", "a", "d"])
    twice = GradedPairs(
        "t", ["q", "q", "x", "q"], ["x", "y", "q", "z"], np.array([1.0, 2.0, 4.0, 0.0])
    )
    (kept,) = ranking_lists([twice])
    assert kept.second == ["x", "y", "x", "z"]
    (merged,) = ranking_lists([twice], RankingChoices(duplicates="mean", more_than=2))
    assert (merged.second, merged.gold.tolist()) == (["x", "y", "z"], [2.5, 2.0, 0.0])
    # three sentences are not more than three
    assert ranking_lists([twice], RankingChoices(duplicates="mean")) == []


def test_constant_lists_are_left_out_or_nought():
    both = [star([2, 2, 2, 2], query="ff"), star([4, 3, 2, 1])]
    skipped, nought = (
        rank_sets(Letters(), {"x": both}, RankingChoices(constant=c))["x"] for c in ("skip", "zero")
    )
    assert (skipped["lists"], skipped["constant"]) == (1, 1)
    assert (nought["lists"], nought["constant"]) == (2, 1)
    assert nought["kendall"] == pytest.approx(skipped["kendall"] / 2)
    assert nought["ndcg"] == pytest.approx(skipped["ndcg"] / 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rank_sets(Letters(), {"own": [star([3, 2, 1])]}), "own has no list to rank"),
        (lambda: rank_sets(Letters(), {"own": [star([2, 2, 2, 2])]}), "own has no list"),
        (lambda: rank_sets(Letters(), {"own": [star([3, 2, 1, -1])]}), r"negative score \(-1\)"),
        (
            lambda: find_list([GradedPairs("A man", ["A man"], ["x"], np.ones(1))], "a woman"),
            "did you mean 'A man'",
        ),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_case_table():
    rows = case_table(
        {"letters": Letters(), "hash": HashEncoder()}, "abc", ["d", "abc", "ab", "ab"], [1, 5, 3, 3]
    )
    assert [(r["sentence"], r["gold"], r["gold_rank"]) for r in rows] == [
        ("abc", 5, 1),
        ("ab", 3, 2),
        ("ab", 3, 2),
        ("d", 1, 4),
    ]
    assert [r["models"]["letters"]["rank"] for r in rows] == [1, 2, 2, 4]
    assert rows[0]["models"]["hash"]["cosine"] == pytest.approx(1)
    unscored = case_table({"letters": Letters()}, "abc", ["d", "abc"])
    assert [r["sentence"] for r in unscored] == ["d", "abc"]
    assert unscored[0]["gold_rank"] is None
