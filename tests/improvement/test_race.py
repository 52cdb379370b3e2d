"""The race's plan: it fits into the time, drops what does not, and is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from conftest import WORDS
from isotrope.errors import UserError
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.improvement import race as racing
from isotrope.improvement.candidates import Trial, recipes
from isotrope.improvement.clock import Clock
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.judges import judges_of
from isotrope.improvement.measure import words_read
from isotrope.improvement.race import FEWEST_PAIRS, MOST_ROUNDS, NO_TIME, PLAN, Made, Race, Start
from isotrope.store.atomic import write_json
from isotrope.store.records import read_record
from isotrope.text.collection import open_documents
from isotrope.training.settings import RunSettings
from library import write_library


def race(folder: Path, seconds: float, trained_on: int = 10_000, **plan: Any) -> Race:
    folder.mkdir(exist_ok=True)
    if plan:
        write_json(folder / PLAN, plan)
    start = Start("model", None, ["documents"], None, None, 100, trained_on, 0)
    return Race(start, folder, [], [], Clock(seconds), Console(quiet=True))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What a race trains, in order; nothing is trained."""
    calls: list[tuple[str, int]] = []

    def note(self: Race, recipe: Any, pairs: int, pooling: str | None, steps: Any, shares: Any) -> None:
        calls.append((recipe.name, pairs))
        self.scores[recipe.name] = {"task": np.array([len(calls) / 10])}
        self._recipes[recipe.name] = recipe.name

    monkeypatch.setattr(Race, "_trained", note)
    return calls


def test_each_recipe_is_trained_shortly_and_the_better_half_for_longer(
    tmp_path: Path, trained: list[tuple[str, int]]
) -> None:
    found = recipes(raw=True, titled=True)
    race(tmp_path, 1200, measuring=10, speed=10_000).trainings(found, None, ())
    assert [name for name, _ in trained[:4]] == [recipe.name for recipe in found]
    short = {pairs for _, pairs in trained[:4]}
    assert len(short) == 1
    assert [name for name, _ in trained[4:]] == [found[3].name, found[2].name], "the best ones by their scores"
    assert all(pairs > 1.5 * max(short) for _, pairs in trained[4:])
    assert all(pairs <= MOST_ROUNDS * 10_000 for _, pairs in trained)


def test_with_little_time_the_first_recipes_are_trained_or_none(tmp_path: Path, trained: list[tuple[str, int]]) -> None:
    found = recipes(raw=True, titled=True)
    race(tmp_path / "a", 100, measuring=2, speed=5_000).trainings(found, None, ())
    assert trained
    assert trained[0][0] == found[0].name
    assert all(pairs >= FEWEST_PAIRS for _, pairs in trained)
    trained.clear()
    none = race(tmp_path / "b", 10, measuring=5, speed=100)
    none.trainings(found, None, ())
    assert not trained
    assert none.left_out == {recipe.name: NO_TIME for recipe in found}
    few = race(tmp_path / "c", 1000, trained_on=50, measuring=5, speed=10_000)
    few.trainings(found, None, ())
    assert set(few.left_out.values()) == {"there are too few documents"}


def test_a_plan_is_kept_for_a_race_that_goes_on(tmp_path: Path, trained: list[tuple[str, int]]) -> None:
    found = recipes(raw=False, titled=False)
    race(tmp_path, 1200, measuring=10, speed=10_000).trainings(found, None, ())
    planned = list(trained)
    assert read_record(tmp_path / PLAN)["plans"]
    trained.clear()
    race(tmp_path, 50).trainings(found, None, ())
    assert trained == planned, "whatever time is left"


def test_short_documents_have_fewer_pairs_than_planned_and_are_trained_all_the_same(
    tiny_model: Path, tmp_path: Path
) -> None:
    path = write_library(tmp_path / "library.jsonl", 80)
    short = "".join(f'{{"title": "", "text": "the old king of {word} day"}}\n' for word in WORDS[:40])
    path.write_text(path.read_text() + short)
    found = judges_of(list(open_documents(path, cache=tmp_path / "cache").each()), None, 0)
    start = Start(str(tiny_model), None, [path], None, None, 20, 100, 0)
    raced = Race(start, tmp_path, found.tasks, [], Clock(600), Console(quiet=True))
    raced.note(measuring=1.0, speed=10_000.0)
    recipe = recipes(raw=True, titled=False)[0]
    raced._trained(recipe, 192, "mean", ())
    assert not raced.left_out
    assert set(raced.scores) == {"crops, 192 pairs", "crops, 192 pairs, averaged"}


def test_a_training_that_fails_is_left_out_alone_but_a_full_disk_ends_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced, recipe = race(tmp_path, 1200, measuring=1.0, speed=10_000.0), recipes(raw=True, titled=False)[0]
    monkeypatch.setattr(racing, "run_training", refusing(None))
    raced._trained(recipe, 4096, None, ())
    assert raced.left_out == {"crops, 4,096 pairs": "refused"}, "its shorter training stays"
    monkeypatch.setattr(racing, "run_training", refusing(OSError(28, "No space left")))
    with pytest.raises(UserError, match="refused"):
        raced._trained(recipe, 2048, None, ())
    assert len(raced.left_out) == 1


def refusing(cause: OSError | None) -> Any:
    def refuse(*_: object) -> None:
        raise UserError("refused", "free some space") from cause

    return refuse


class Machine:
    """A machine that does nothing, and says how long it would have taken.

    Args:
        speed: words a second that its model reads.
        pairs: pairs a second that it is trained on; each training takes ten seconds more.
    """

    def __init__(self, speed: float, pairs: float, patch: pytest.MonkeyPatch) -> None:
        self.speed, self.pairs, self.time, self.trained = speed, pairs, 0.0, list[int]()
        self.clock = Clock(1200, now=lambda: self.time)
        for name, does in (("measure_trial", self.measure), ("run_training", self.train), ("speed_of", self.probe)):
            patch.setattr(racing, name, does)
        patch.setattr(racing, "load", lambda *_: None)
        patch.setattr(Race, "_encoder", lambda *_: None)

    def work(self, seconds: float) -> None:
        """Time passes; the alarm rings in between if the race's time is over."""
        if self.clock.spent and seconds > self.clock.left:
            self.time += max(0.0, self.clock.left)
            self.clock.rang = True
            raise KeyboardInterrupt
        self.time += seconds

    def probe(self, model: Any, texts: list[str], clock: Clock) -> tuple[float, int]:
        self.time += 5 + words_read(texts[:32]) / self.speed
        return self.speed, 384

    def measure(self, model: Any, trial: Trial, tasks: Any, fitted_on: list[str]) -> dict[str, Any]:
        self.work(words_read([*fitted_on, *(text for task in tasks for text in task.texts)]) / self.speed)
        return {name: {"task": np.array([0.5])} for name, _ in trial.candidates()}

    def train(self, settings: RunSettings, console: Any) -> None:
        told = dict(setting.split("=") for setting in settings.overrides)
        pairs = float(told["train.epochs"]) * int(told["pairs.rounds"]) * 4700
        self.work(10 + pairs / self.pairs)
        self.trained.append(round(pairs))


MACHINES = {  # words and pairs a second: the least number of trainings
    "MiniLM, two cores": (4500, 50, 3), "MiniLM, one core": (2250, 25, 2), "tiny": (60_000, 800, 5),
    "trains much slower than it reads": (4500, 10, 1), "BERT-base": (560, 6, 0), "a large model": (160, 1.5, 0),
}  # fmt: skip


@pytest.mark.parametrize("which", MACHINES)
def test_twenty_minutes_end_within_twenty_two(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 long documents; 300 of them judge."""
    speed, pairs, least = MACHINES[which]
    machine = Machine(speed, pairs, monkeypatch)
    texts = [f"{place} " + 120 * "word " for place in range(300)]
    tasks = [SelfMadeTask(name, [f"{name} {text}" for text in texts], texts, np.arange(300)) for name in "abc"]
    fitted_on = [f"fit {place} " + 120 * "word " for place in range(1500)]
    start = Start("model", None, ["documents"], None, None, 300, 4700, 0)
    raced = Race(start, tmp_path, tasks, fitted_on, machine.clock, Console(quiet=True))
    try:
        raced.plan_size(None)  # type: ignore[arg-type]
        pooling = raced.poolings([None])
        after = 15 + words_read(raced.fitted_on) / speed
        machine.clock.kept_back = min(after, 300)
        raced.trainings(recipes(raw=False, titled=True), pooling, ["slight whitening"])
    except KeyboardInterrupt:
        pass
    assert AS_IS in raced.scores
    assert machine.time + after <= 1.1 * 1200
    assert len(machine.trained) >= least, raced.left_out
    assert machine.time > 450 or not machine.trained, "the time is used"


def simulated(folder: Path, monkeypatch: pytest.MonkeyPatch, speed: float, pairs: float) -> tuple[Machine, Race]:
    """A race of 20 minutes, where a measurement takes 20 seconds."""
    machine, texts = Machine(speed, pairs, monkeypatch), ["word " * 32] * round(20 * speed / 32)
    raced = Race(race(folder, 1, trained_on=4700).start, folder, [], texts, machine.clock, Console(quiet=True))
    raced.note(measuring=20.0, speed=speed)
    raced.trainings(recipes(raw=False, titled=True), None, ())
    return machine, raced


def test_what_did_not_fit_at_first_is_tried_where_time_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, raced = simulated(tmp_path, monkeypatch, 1100, 12)
    plans = read_record(tmp_path / PLAN)["plans"]
    names = [recipe.name for recipe in recipes(raw=False, titled=True)][len(plans["first"]) :]
    tried = [name for name in names if plans[f"last: {name}"]]
    assert tried
    assert tried == names[: len(tried)], "in their order"
    assert list(raced.left_out) == names[len(tried) :]
    assert machine.trained[-1] <= max(plans["first"].values()), "not longer than the others at first"
    assert machine.time > 1000


def test_the_best_recipe_is_trained_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated(tmp_path, monkeypatch, 2250, 25)
    plans = read_record(tmp_path / PLAN)["plans"]
    second = [max(plan.values(), default=0) for name, plan in plans.items() if name.startswith("second: ")]
    assert len(second) > 1
    assert second == sorted(second, reverse=True)
    assert second[0] > 1.5 * second[-1]


def test_a_model_that_is_too_slow_is_refused_before_long_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(20, 0.1, monkeypatch)
    texts = [f"{place} " + 120 * "word " for place in range(100)]
    task = SelfMadeTask("a", [f"a {text}" for text in texts], texts, np.arange(100))
    raced = Race(race(tmp_path, 1).start, tmp_path, [task], [], machine.clock, Console(quiet=True))
    with pytest.raises(UserError, match="minutes = 20 is too short: the model reads 20 words a second"):
        raced.plan_size(None)  # type: ignore[arg-type]
    assert not (tmp_path / PLAN).exists()


def test_what_does_not_fit_any_more_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(5000, 50, monkeypatch)
    raced = Race(race(tmp_path, 1).start, tmp_path, [], [], machine.clock, Console(quiet=True))
    raced.note(measuring=10.0, speed=5000.0)
    machine.time = 1150.0
    raced._trained(recipes(raw=False, titled=False)[0], 4096, None, ())
    raced._measured(Trial("pooling cls"), Made("cls"))
    machine.time = 1195.0
    raced._measured(Trial("pooling mean"), Made("mean"))
    assert raced.left_out == {"crops, 4,096 pairs": NO_TIME, "pooling mean": NO_TIME}
    assert read_record(tmp_path / PLAN)["left_out"] == raced.left_out, "a race that goes on leaves it out too"
    assert "pooling cls" in raced.scores


def test_a_race_that_goes_on_measures_as_much_as_before(tmp_path: Path) -> None:
    texts = [f"text {place}" for place in range(90)]
    task = SelfMadeTask("a", texts, [f"{text} more" for text in texts], np.arange(90))
    write_json(tmp_path / PLAN, {"size": {"queries": 60, "fitted_on": 30}})
    raced = Race(race(tmp_path, 1).start, tmp_path, [task], texts, Clock(9), Console(quiet=True))
    assert (raced.tasks[0].size, len(raced.fitted_on), len(raced.told)) == (60, 30, 2)
