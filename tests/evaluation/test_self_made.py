"""Tasks made from the text alone: what they ask, which texts they take, and what they see."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import WORDS, sentences
from isotrope.evaluation.self_made import SelfMadeTask, _jaccard, compare_self_made, make_tasks, usable
from isotrope.text.words import words_of

TEXTS = [text for text in sentences(400, seed=9) if len(text.split()) >= 12][:60]


class Bags:
    """Counts of the vocabulary's words; with ``blur``, every vector is nearly the same."""

    def __init__(self, blur: float = 0.0) -> None:
        self.blur = blur

    def encode(self, texts: list[str]) -> np.ndarray:
        rows = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=float)
        noise = np.random.default_rng(len(texts)).standard_normal(rows.shape)
        return rows + self.blur * noise


class Letters:
    """The same letters, the same vector."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=float)


def test_halves_and_spans_hold_every_word_of_the_text_once() -> None:
    halves, spans = make_tasks(TEXTS)
    for task in (halves, spans):
        for query, answer, text in zip(task.queries, task.answers, TEXTS, strict=True):
            assert sorted([*query.split(), *task.candidates[answer].split()]) == sorted(text.split())
    assert [f"{a} {b}" for a, b in zip(halves.queries, halves.candidates, strict=True)] == TEXTS
    assert {round(0.3 * len(text.split())) for text in TEXTS} == {len(span.split()) for span in spans.queries}


def test_the_same_texts_and_seed_give_the_same_tasks() -> None:
    assert make_tasks(TEXTS)[1].queries == make_tasks(TEXTS)[1].queries
    assert make_tasks(TEXTS)[1].queries != make_tasks(TEXTS, seed=1)[1].queries
    assert make_tasks(TEXTS[::-1])[1].queries == make_tasks(TEXTS)[1].queries[::-1]


def test_a_language_without_spaces_is_cut_between_letters() -> None:
    text = "東京は日本の首都であり世界最大の都市の一つである"
    task = make_tasks(usable([text]))[0]
    assert (task.queries[0], task.candidates[0]) == (text[:12], text[12:])


def test_short_texts_and_near_duplicates_are_left_out() -> None:
    first = "one two three four five six seven eight nine ten eleven twelve"
    near = "One two three four five six seven eight nine ten eleven thirteen"
    other = "twelve eleven ten nine eight seven six five four three two one"
    assert usable([first, "too short to be cut in two", near, other, first]) == [first, other]
    assert usable([first, other], most=1) == [first]
    assert usable(["too short"]) == []


def test_a_score_is_one_over_the_place_of_the_answer() -> None:
    """By hand: the cosines of letters alone."""
    task = make_tasks(["a b c d e f a b c d e f", "g h i j k l g h i j k l"])[0]
    np.testing.assert_array_equal(task.score(Letters()), [1, 1])
    swapped = make_tasks(["a b c d e f g h i j k l", "g h i j k l a b c d e f"])[0]
    np.testing.assert_array_equal(swapped.score(Letters()), [0.5, 0.5])


@pytest.mark.parametrize(("before", "after", "verdict"), [(0, 3, "worse"), (3, 0, "better"), (0, 0, "not significant")])
def test_a_blurred_model_is_seen(before: float, after: float, verdict: str) -> None:
    tasks = make_tasks([" ".join([*text.split(), *text.split()]) for text in TEXTS])
    found = compare_self_made(Bags(before), Bags(after), tasks)
    assert found.verdict == verdict
    assert list(found.per_task) == ["half → half", "span → rest"]
    means = [one.after for one in found.per_task.values()]
    assert found.after == pytest.approx(np.mean(means))


def test_shares_of_common_word_triples_are_those_of_sets() -> None:
    """Frequent triples and rare ones are counted in two ways."""
    generator = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in generator.zipf(1.5, size=30) % 20) for _ in range(60)] + ["a b c"] * 2
    words = [words_of(text)[0] for text in texts]
    sets = [{tuple(each[i : i + 3]) for i in range(len(each) - 2)} for each in words]
    wanted = [[len(a & b) / len(a | b) for b in sets] for a in sets]
    np.testing.assert_allclose(_jaccard(texts), wanted, atol=1e-7)


def test_a_part_asks_fewer_queries_among_their_own_answers() -> None:
    task = SelfMadeTask("a", list("abcd"), list("wxyz"), np.array([3, 2, 1, 0]))
    part = task.part(2)
    assert (part.size, part.queries, part.candidates, part.answers.tolist()) == (2, ["b", "d"], ["w", "y"], [1, 0])
    assert task.part(9).size == 4


def test_all_places_count_where_the_first_ten_say_too_little() -> None:
    """Directions of four answers; the first query is nearest to its own, the last one meets a tie."""
    rows = {"a": 0.0, "b": 1.2, "c": 0.1, "w": 0.05, "x": 1.0, "y": 2.0, "z": 0.05}

    class Angles:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.array([[np.cos(rows[text]), np.sin(rows[text])] for text in texts])

    task = SelfMadeTask("t", ["a", "b", "c"], list("wxyz"), np.array([1, 2, 0]), all_places=True)
    assert task.score(Angles()).tolist() == [2 / 3, 1 / 3, 2 / 3], "in the order of the answers"
    assert task.part(1).all_places
