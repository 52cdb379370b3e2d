"""The choice among candidates, on the documents that choose."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.evaluation.document_tasks import HALVES
from isotrope.improvement.choose import Traits, choose_candidate
from isotrope.improvement.scores import KEEP, CandidateTable, mean_score
from isotrope.types import Vector

Scores = dict[str, dict[str, Vector]]


def noisy(
    gains: Mapping[str, float], cases: int = 200, seed: int = 0, spread: float = 0.3
) -> Scores:
    """Candidates that differ from "keep" by so much on average, on two tasks."""
    generator = np.random.default_rng(seed)
    keep = {"a": generator.random(cases), "b": generator.random(cases + 1)}
    scores: Scores = {KEEP: keep}
    for name, gain in gains.items():
        noise = spread * generator.standard_normal(cases + 1)
        scores[name] = {task: old + gain + noise[: len(old)] for task, old in keep.items()}
    return scores


def choose(scores: Scores, **traits: Traits) -> str:
    every = {name: traits.get(name, Traits()) for name in scores}
    return choose_candidate(CandidateTable(scores), every)


def test_the_largest_gain_is_chosen() -> None:
    assert choose(noisy({"x": 0.1, "y": 0.05, "z": -0.1}, spread=0.01)) == "x"


def test_if_nothing_gains_the_model_is_kept() -> None:
    scores = noisy({"x": -0.1}, spread=0.01)
    assert choose(scores) == KEEP
    assert choose({**scores, "same": scores[KEEP]}) == KEEP


def test_gains_are_means_over_tasks_with_their_intervals() -> None:
    scores = noisy({"x": 0.05})
    gain = CandidateTable(scores).gains()["x"]
    assert gain.difference == pytest.approx(mean_score(scores["x"]) - mean_score(scores[KEEP]))
    assert gain.low < gain.difference < gain.high


@given(st.integers(0, 50), st.permutations(["x", "y", "z"]))
def test_the_order_of_the_candidates_does_not_matter(seed: int, order: list[str]) -> None:
    scores = noisy({"x": 0.02, "y": 0.05, "z": 0.0}, cases=30, seed=seed)
    turned = {name: scores[name] for name in [*order, KEEP]}
    assert choose(scores) == choose(turned)


def test_a_training_must_not_harm_the_tasks_that_do_not_resemble_it() -> None:
    scores = noisy({"crops": 0.0})
    scores["crops"] = {"a": scores[KEEP]["a"] + 0.2, "b": scores[KEEP]["b"] - 0.01}
    assert choose(scores) == "crops"
    assert choose(scores, crops=Traits(resembles_training=frozenset({"a"}))) == KEEP
    assert choose(scores, crops=Traits(resembles_training=frozenset({"b"}))) == "crops"


def test_a_training_that_all_tasks_resemble_is_not_chosen() -> None:
    scores = noisy({"crops": 0.1}, spread=0.01)
    assert choose(scores, crops=Traits(resembles_training=frozenset({"a", "b"}))) == KEEP


KEEPS = Traits(keeps_documents=True)
AVERAGED = Traits(averaged_with_start="averaged")


@pytest.mark.parametrize(
    ("gains", "traits", "choice"),
    [
        ({"crops": 0.06, "map": 0.055}, {}, "crops"),
        ({"crops": 0.06, "map": 0.055}, {"map": KEEPS}, "map"),
        ({"crops": 0.12, "map": 0.055}, {"map": KEEPS}, "crops"),
        ({"crops": 0.06, "map": 0.001}, {"map": KEEPS}, "crops"),
        ({"crops": 0.06, "averaged": 0.05}, {"crops": AVERAGED}, "averaged"),
        ({"crops": 0.12, "averaged": 0.05}, {"crops": AVERAGED}, "crops"),
        ({"crops": 0.06, "map": 0.055, "averaged": 0.05}, {"crops": AVERAGED, "map": KEEPS}, "map"),
    ],
)
def test_one_that_costs_less_is_preferred_unless_it_gains_significantly_less(
    gains: dict[str, float], traits: dict[str, Traits], choice: str
) -> None:
    assert choose(noisy(gains, spread=0.1), **traits) == choice


@pytest.mark.parametrize(
    ("changes", "resembles", "choice"),
    [
        ({HALVES: 0.1}, "", "x"),
        ({HALVES: 0.1, "a": -0.1}, "", KEEP),
        ({HALVES: -0.1, "a": 0.1, "b": 0.0}, "", "x"),
        ({HALVES: 0.1, "a": 0.1}, "a", "x"),
        ({HALVES: -0.1, "a": 0.1}, "a", KEEP),
    ],
)
def test_the_halves_check_but_count_only_alone(
    changes: dict[str, float], resembles: str, choice: str
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 200)
    keep = dict.fromkeys(changes, np.zeros(200))
    scores = {KEEP: keep, "x": {task: noise + change for task, change in changes.items()}}
    assert choose(scores, x=Traits(resembles_training=frozenset({resembles}))) == choice


def test_a_mean_score_is_over_tasks_and_not_over_queries() -> None:
    scores = {HALVES: np.array([0.9]), "a": np.array([1.0]), "b": np.array([0.0, 0.5, 0.1])}
    assert mean_score(scores) == pytest.approx(0.6)
