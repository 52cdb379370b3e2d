"""The decision: against a plain computation, and by its properties."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.evaluation.document_tasks import HALVES
from isotrope.improvement.decide import (
    AS_IS,
    choose_candidate,
    choose_in_turn,
    mean_score,
    race_verdict,
)
from isotrope.types import Vector

Scores = dict[str, dict[str, Vector]]


def noisy(
    gains: Mapping[str, float], cases: int = 200, seed: int = 0, spread: float = 0.3
) -> Scores:
    """Candidates that differ from "keep" by so much on average, on two tasks."""
    draw = np.random.default_rng(seed)
    keep = {task: draw.random(cases + place) for place, task in enumerate(("a", "b"))}
    made = {AS_IS: keep}
    for name, gain in gains.items():
        made[name] = {
            task: old + gain + spread * draw.standard_normal(len(old)) for task, old in keep.items()
        }
    return made


def test_it_is_what_a_plain_computation_gives() -> None:
    scores = noisy({"x": 0.05, "y": 0.02, "z": -0.1})
    choice, gains = choose_candidate(scores, resamples=300, seed=5)
    names = ["x", "y", "z"]
    points = {n: np.mean([np.mean(scores[n][t] - scores[AS_IS][t]) for t in "ab"]) for n in names}
    drawn: dict[str, list[float]] = {n: [] for n in names}
    # of each document
    for times in np.random.default_rng(5).multinomial(201, np.full(201, 1 / 201), size=300):
        picks = {t: np.repeat(np.arange(201), times) for t in "ab"}
        picks["a"] = picks["a"][picks["a"] < 200]
        for n in names:
            drawn[n].append(
                float(np.mean([np.mean((scores[n][t] - scores[AS_IS][t])[picks[t]]) for t in "ab"]))
            )
    spread = {n: np.std(drawn[n], ddof=1) for n in names}
    largest = [max((drawn[n][r] - points[n]) / spread[n] for n in names) for r in range(300)]
    for n in names:
        expected = (1 + sum(m >= points[n] / spread[n] for m in largest)) / 301
        assert gains[n].p == pytest.approx(expected)
        assert gains[n].gain == pytest.approx(points[n])
    allowed = [n for n in names if gains[n].p <= 0.05]
    assert choice == max(allowed, key=lambda n: points[n]) == "x"


def test_tasks_of_the_same_documents_are_drawn_together_also_where_one_has_fewer_of_them() -> None:
    """The interval is as wide as that of one task; drawn apart, it would be narrower by the root of
    two.
    """
    rows = np.arange(0, 200, 2)  # the documents that the second task has
    old, new = (scores["a"] for scores in noisy({"x": 0.03}).values())
    scores = {AS_IS: {"a": old, "b": old[rows]}, "x": {"a": new, "b": new[rows]}}
    half = {name: {"b": of["b"]} for name, of in scores.items()}
    (together,), (apart,), (alone,) = (
        choose_candidate(given_, documents={"b": places})[1].values()
        for given_, places in ((scores, rows), (scores, 200 + np.arange(100)), (half, rows))
    )
    # Var of (a + b) / 2, where b is of half of a's documents: 1/200 · (1 + 2 + 2) / 4 together, (1
    # + 2) / 4 apart
    assert (together.high - together.low) / (apart.high - apart.low) == pytest.approx(
        (5 / 3) ** 0.5, rel=0.12
    )
    assert together.high - together.low < alone.high - alone.low


def test_equal_candidates_leave_the_model_as_it_is() -> None:
    scores = noisy({})
    choice, gains = choose_candidate({**scores, "same": scores[AS_IS]})
    assert choice == AS_IS
    assert (gains["same"].p, gains["same"].gain, gains["same"].allowed) == (1.0, 0.0, False)
    assert choose_candidate(scores) == (AS_IS, {})


def test_the_best_of_many_by_luck_is_not_chosen() -> None:
    """Twenty candidates without any gain: the best one passes in about 5 % of the cases, not in 64
    %.
    """
    chosen = 0
    for seed in range(100):
        scores = noisy({f"c{i}": 0.0 for i in range(20)}, cases=60, seed=seed)
        chosen += choose_candidate(scores, resamples=200, seed=seed)[0] != AS_IS
    assert chosen <= 12  # 5 expected; 13 or more has probability 0.001


@given(st.integers(0, 50), st.floats(-0.2, 0.2), st.permutations(["x", "y", "z"]))
def test_the_order_of_the_candidates_does_not_matter(
    seed: int, gain: float, order: list[str]
) -> None:
    scores = noisy({"x": gain, "y": 0.05, "z": 0.0}, cases=30, seed=seed)
    turned = {name: scores[name] for name in [*order, AS_IS]}
    first, second = (choose_candidate(given_, resamples=100) for given_ in (scores, turned))
    assert first[0] == second[0]
    for name in order:
        # a tie may round either way
        assert first[1][name].p == pytest.approx(second[1][name].p, abs=0.011)
        assert first[1][name].gain == second[1][name].gain


def test_a_gain_where_the_training_looked_alike_does_not_count_if_the_other_tasks_are_significantly_worse() -> (
    None
):
    scores = noisy({"crops": 0.0})
    scores["crops"] = {"a": scores[AS_IS]["a"] + 0.2, "b": scores[AS_IS]["b"] - 0.01}
    assert choose_candidate(scores)[0] == "crops"
    choice, gains = choose_candidate(scores, {"crops": frozenset({"a"})})
    assert choice == AS_IS
    assert gains["crops"].others == pytest.approx(-0.01)
    noise = np.random.default_rng(0).normal(0, 0.1, len(scores[AS_IS]["b"]))
    unsure = scores | {
        "crops": scores["crops"] | {"b": scores[AS_IS]["b"] + noise - noise.mean() - 0.005}
    }
    choice, gains = choose_candidate(unsure, {"crops": frozenset({"a"})})
    assert (choice, gains["crops"].others) == ("crops", pytest.approx(-0.005)), (
        "worse, but not significantly"
    )
    choice, gains = choose_candidate(scores, {"crops": frozenset({"a", "b"})})
    assert (choice, gains["crops"].others) == (AS_IS, None)
    assert choose_candidate(scores, {"crops": frozenset({"b"})})[0] == "crops"


def test_of_two_that_are_as_good_the_one_that_keeps_the_documents_vectors_is_chosen() -> None:
    scores = noisy({"crops": 0.06, "map": 0.055}, spread=0.1)
    assert choose_candidate(scores)[0] == "crops"
    assert choose_candidate(scores, kept=["map"])[0] == "map"
    scores = noisy({"crops": 0.12, "map": 0.055}, spread=0.1)
    assert choose_candidate(scores, kept=["map"])[0] == "crops", (
        "significantly better is worth the work"
    )
    scores = noisy({"crops": 0.06, "map": 0.0}, spread=0.1)
    assert choose_candidate(scores, kept=["map"])[0] == "crops", "no gain is no reason"


def test_a_training_that_is_no_better_than_its_average_with_the_model_gives_way_to_it() -> None:
    scores = noisy({"crops": 0.06, "map": 0.0, "averaged": 0.05}, spread=0.1)
    assert choose_candidate(scores, milder={"crops": "averaged"})[0] == "averaged"
    assert choose_candidate(scores, milder={"map": "averaged"})[0] == "crops", (
        "the average of another training"
    )
    assert choose_candidate(scores, milder={"crops": "averaged"}, kept=["map"])[0] == "averaged", (
        "the map gains nothing"
    )
    scores = noisy({"crops": 0.06, "map": 0.055, "averaged": 0.05}, spread=0.1)
    assert choose_candidate(scores, milder={"crops": "averaged"}, kept=["map"])[0] == "map", (
        "it costs less"
    )
    scores = noisy({"crops": 0.12, "map": 0.0, "averaged": 0.05}, spread=0.1)
    assert choose_candidate(scores, milder={"crops": "averaged"})[0] == "crops", (
        "significantly better"
    )


def test_what_more_documents_judge_comes_first_and_the_others_must_be_better_than_the_best_of_it() -> (
    None
):
    """Few documents cannot tell the map's gain, many can; a training must add to the map, and not
    only to "keep".
    """
    few, more = (
        noisy({"map": 0.02, "crops": gain}, cases, seed=cases)
        for cases, gain in ((200, 0.05), (2000, 0.0))
    )
    places = (
        {"a": np.arange(200), "b": np.arange(201)},
        {"a": np.arange(2000), "b": np.arange(2001)},
    )
    crossed = {name: more[name] for name in (AS_IS, "map")}
    alone, gains = choose_in_turn(few, {}, places[0], {}, {})
    assert (alone, gains["map"].allowed) == (choose_candidate(few)[0], False)
    choice, gains = choose_in_turn(few, {}, places[0], crossed, places[1])
    assert choice == "map"
    every = {
        name: {task: np.concatenate([few[name][task], of[task]]) for task in of}
        for name, of in crossed.items()
    }
    assert gains["map"].gain == pytest.approx(mean_score(every["map"]) - mean_score(every[AS_IS]))
    close, further = (noisy({"map": 0.05}, cases, cases, spread=0.1) for cases in (200, 2000))
    noise = np.random.default_rng(0).normal(0, 0.1, 201)
    close["crops"] = {
        task: of + noise[: len(of)] - noise[: len(of)].mean() + 0.003
        for task, of in close["map"].items()
    }
    assert choose_candidate(close)[0] == "crops", "it is better than keep"
    assert choose_in_turn(close, {}, places[0], further, places[1])[0] == "map", (
        "but not better than the map"
    )
    better = few | {"crops": {task: cases + 0.1 for task, cases in few["map"].items()}}
    assert choose_in_turn(better, {}, places[0], crossed, places[1])[0] == "crops"


def test_the_halves_judge_alone_or_check_but_do_not_judge_beside_another_task() -> None:
    rows = np.random.default_rng(0).normal(0, 0.01, (3, 200))
    better, worse, same = rows[0] + 0.1, rows[1] - 0.1, rows[2]

    def found(change: dict[str, Vector], alike: str = "") -> str:
        scores = {AS_IS: dict.fromkeys(change, np.zeros(200)), "x": change}
        return choose_candidate(scores, {"x": frozenset({alike})})[0]

    assert found({HALVES: better}) == "x", "alone"
    assert found({HALVES: better, "a": worse}) == AS_IS
    assert found({HALVES: worse, "a": better, "b": same}) == "x"
    assert found({HALVES: better, "a": better}, alike="a") == "x", (
        "a training like the task is checked by them"
    )
    assert found({HALVES: worse, "a": better}, alike="a") == AS_IS
    assert mean_score({HALVES: np.array([0.9])}) == pytest.approx(0.9)
    scores = {HALVES: np.array([0.9]), "a": np.array([1.0]), "b": np.array([0.0, 0.5, 0.1])}
    assert mean_score(scores) == pytest.approx(0.6), "over tasks, not over queries"


def test_the_verdict_says_what_judged_what_came_out_and_what_could_not_be_seen() -> None:
    scores = noisy({"x": 0.1, "y": 0.02}, spread=0.1)
    choice, gains = choose_candidate(scores)
    said: Any = {"model": "mine", "judge": ("200 of your own documents", "MRR@10 × 100")}
    found = race_verdict((scores[AS_IS], scores["x"]), gains, choice, "x", **said)
    assert (found.word, found.before, found.after) == ("better", "mine", "x")
    assert "judged by 200 of your own documents" in str(found)
    kept = race_verdict(
        (scores[AS_IS], scores["x"]), gains, AS_IS, "x", **said, needed="trainings need 9 minutes"
    )
    assert (kept.word, kept.after) == ("no difference found", "x")
    assert "Differences under about" in kept.advice
    assert kept.advice.endswith("No training was tried: trainings need 9 minutes.")
    assert str(
        race_verdict(({}, {}), {}, AS_IS, AS_IS, **said, needed="trainings need 9 minutes")
    ) == ("not tested; trainings need 9 minutes")
