"""The race does its plan, looks at the clock between two candidates only, and goes on after a stop."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from helpers.library import fitting_set
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.improvement import race as racing
from isotrope.improvement.candidates import (
    RANKINGS,
    Candidate,
    CandidateTrainer,
    Collection,
    recipes_for,
)
from isotrope.improvement.clock import Clock
from isotrope.improvement.measure import CandidateScores
from isotrope.improvement.plan import Plan
from isotrope.improvement.race import NO_TEACHER, NO_TIME, NOTES, Notes, Race
from isotrope.improvement.steps import FittedStep
from isotrope.improvement.tasks import TaskSet

DOCUMENTS: Any = SimpleNamespace(paths=["documents"])
RECIPES = {recipe.name: recipe for recipe in recipes_for(False, Collection(True, False, True))}
PLAN = Plan(
    choosing=20,
    judging=40,
    candidates=(Candidate(name="keep"),),
    short_trainings=(1024, 1024, 1024),
    long_trainings=(4096, 2048),
    seconds={
        "keep": 10.0,
        **{f"training {place}": 30.0 for place in (1, 2, 3)},
        **{f"longer training {place}": 60.0 for place in (1, 2)},
        "judging": 20.0,
    },
)


class Machine:
    """A machine that does nothing, and takes ``factor`` times as long as was planned.

    The longer the name of a recipe, the better it is.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, factor: float = 1.0) -> None:
        self.folder = folder
        self.factor = factor
        self.time = 0.0
        self.trained = list[Candidate]()
        patch.setattr(Clock, "now", lambda *_: self.time)
        patch.setattr(racing, "measure_candidate", self.measure)
        # A method is called with its trainer first.
        patch.setattr(CandidateTrainer, "train", lambda *given: self.train(*given[1:]))
        patch.setattr(CandidateTrainer, "encoder", lambda *_: None)

    def race(self, plan: Plan = PLAN, limit: float = 1000.0) -> Race:
        """A race that begins, or goes on."""
        rows = np.arange(20)
        texts = [f"text {row}" for row in rows]
        task = DocumentTask("a", texts, texts, rows, rows)
        notes = Notes.read(self.folder)
        return Race(
            plan=plan,
            trainers={"": CandidateTrainer("m", DOCUMENTS, 60, 4700, 0, self.folder, RECIPES)},
            task_set=TaskSet([task]),
            fitting_set=fitting_set(10),
            folds=(),
            teachers={},
            folder=self.folder,
            notes=notes,
            clock=Clock(limit, notes.spent),
            console=Console(quiet=True),
        )

    def run(self, plan: Plan = PLAN, limit: float = 1000.0) -> Race:
        race = self.race(plan, limit)
        race.run()
        return race

    def measure(self, model: Any, candidate: Candidate, *_: Any) -> CandidateScores:
        self.time += 10 * self.factor
        score = candidate.pairs / 1e6 + len(candidate.recipe) / 100
        names = [name for name, _ in candidate.with_steps()]
        scores = {name: {"a": np.full(20, score)} for name in names}
        steps = {name: FittedStep(np.zeros(1), np.eye(1)) for name in names[1:]}
        return CandidateScores(scores=dict(scores), steps=steps)

    def train(self, candidate: Candidate, _rankings: Any = None) -> None:
        self.time += 20 * self.factor
        self.trained.append(candidate)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_better_half_is_trained_longer_the_best_longest(machine: Machine) -> None:
    race = machine.run()
    trained = [(candidate.recipe, candidate.pairs) for candidate in machine.trained]
    assert trained == [
        ("crops", 1024),
        ("titles", 1024),
        ("sentences", 1024),
        ("sentences", 4096),
        ("titles", 2048),
    ]
    assert "sentences, 4,096 pairs, averaged" in race.scores
    assert "crops, 1,024 pairs, averaged" not in race.scores


def test_without_a_teacher_of_rankings_the_query_encoder_is_left_out(machine: Machine) -> None:
    race = machine.run()
    assert race.notes.left_out[RANKINGS] == NO_TEACHER


def test_recipes_without_time_are_named(machine: Machine) -> None:
    left_out = machine.run().notes.left_out
    assert [name for name, why in left_out.items() if why == NO_TIME] == [
        "crops at a high rate",
        "crops ranked by BM25",
        "neighbours",
    ]


def test_what_does_not_fit_any_more_is_left_out(machine: Machine) -> None:
    machine.factor = 2.0
    race = machine.run(limit=240.0)
    assert "keep" in race.scores
    assert NO_TIME in race.notes.left_out.values()
    assert machine.time + 2 * PLAN.seconds["judging"] <= 1.1 * 240


def test_the_model_as_it_is_is_always_measured(machine: Machine) -> None:
    assert list(machine.run(limit=1.0).encoders) == [Candidate(name="keep")]


def test_nothing_is_trained_or_measured_twice_after_a_stop(machine: Machine) -> None:
    first = machine.run()
    trained, time = len(machine.trained), machine.time
    second = machine.run()
    assert (len(machine.trained), machine.time) == (trained, time)
    assert second.plan_done() == first.plan_done()
    assert second.scores.keys() == first.scores.keys()


def test_the_time_of_an_earlier_call_counts(machine: Machine) -> None:
    machine.run()
    assert machine.race().clock.spent >= 150


def test_a_plan_that_was_done_is_repeated_without_a_clock(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = machine.run().plan_done()
    assert not done.short_trainings
    slow = Machine(tmp_path / "again", monkeypatch, factor=1000.0)
    again = slow.run(done, limit=float("inf"))
    assert again.plan_done() == done


def test_damaged_notes_count_as_missing(machine: Machine, tmp_path: Path) -> None:
    for content in ("{", '{"spent": "long"}', ""):
        (tmp_path / NOTES).write_text(content)
        assert Notes.read(tmp_path) == Notes()


def refuse(cause: OSError | None) -> Any:
    def train(*_: object) -> None:
        raise UserError("refused", "free some space", "refused") from cause

    return train


def test_a_training_that_fails_is_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CandidateTrainer, "train", refuse(None))
    race = machine.run()
    assert race.notes.left_out["crops, 1,024 pairs"] == "refused"


def test_a_full_disk_ends_the_race(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidateTrainer, "train", refuse(OSError(28, "No space left")))
    with pytest.raises(UserError, match="refused"):
        machine.run()


def test_only_whitenings_that_helped_follow_trainings(machine: Machine) -> None:
    race = machine.run()
    assert all(not candidate.steps for candidate in machine.trained)
    race.scores["soft whitening"] = {"a": np.ones(20)}
    assert race._helpful_whitenings() == ("soft whitening",)
