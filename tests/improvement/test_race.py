"""The race's plan: it fits into the time, shrinks before it drops, is kept, and can be repeated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.improvement import race as racing
from isotrope.improvement.budget import NOTES, Budget, Clock
from isotrope.improvement.candidates import RANKINGS, Maker, Training, Trial, recipes
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.measure import Measured, texts_read, words_read
from isotrope.improvement.race import NO_TIME, Race
from isotrope.improvement.schedule import train_in_turn
from isotrope.improvement.steps import Basis, Fitted
from isotrope.store.files import read_record, write_json
from isotrope.text.pseudo_queries import PseudoQueries

DOCUMENTS: Any = type("Documents", (), {"paths": ["documents"], "title": None, "text": None})()
RECIPES = [recipe for recipe in recipes(raw=False, titled=True) if recipe.name != RANKINGS]


class Machine:
    """A machine that does nothing, and says how long it would have taken.

    Args:
        speed: words a second that its model reads.
        pairs: pairs a second that it is trained on; each training takes ten seconds more.
    """

    def __init__(self, speed: float, pairs: float, patch: pytest.MonkeyPatch) -> None:
        self.speed, self.pairs, self.patch, self.time, self.trained = (
            speed,
            pairs,
            patch,
            0.0,
            list[int](),
        )
        patch.setattr(racing, "measure_trial", self.measure)
        patch.setattr("isotrope.improvement.candidates.train", self.train)
        patch.setattr("isotrope.improvement.candidates.is_bare", lambda _: False)
        patch.setattr(Maker, "encoder", lambda *_: None)

    def race(
        self,
        folder: Path,
        seconds: float = 1200,
        queries: int = 300,
        recipes: list[Training] = RECIPES,
        trained_on: int = 4700,
    ) -> Race:
        """A race on long documents, of which so many judge."""
        folder.mkdir(exist_ok=True)
        self.trained_on = trained_on
        self.patch.setattr(Budget, "clock", Clock(lambda: self.time, None, None))
        self.budget = Budget(folder, seconds)
        texts = [f"{place} " + 120 * "word " for place in range(queries)]
        own = np.arange(queries)
        tasks = [DocumentTask(n, [f"{n} {text}" for text in texts], texts, own, own) for n in "abc"]
        rows = list(range(6000))
        asked = PseudoQueries(
            [f"{i} of " + 10 * "word " for i in rows],
            [i // 4 for i in rows],
            ["span" for _ in rows],
        )
        basis = Basis([f"fit {place} " + 120 * "word " for place in range(1500)], asked, 0)
        named = {recipe.name: recipe for recipe in recipes}
        maker = Maker("model", DOCUMENTS, 300, trained_on, 0, folder, named)
        return Race(maker, tasks, basis, self.budget, Console(quiet=True))

    def run(self, raced: Race) -> Race:
        """All of it -> the race."""
        try:
            self.time += 5 + words_read(raced.texts()[:32]) / self.speed
            if raced.plan_size(self.speed, 384):
                pooling = raced.poolings([None])
                after = 15 + words_read(raced.basis.documents) / self.speed
                raced.budget.kept_back = min(after, raced.budget.seconds / 4)
                train_in_turn(raced, pooling, ["slight whitening"])
                raced.widen()
        except KeyboardInterrupt:
            pass
        return raced

    def work(self, seconds: float) -> None:
        """Time passes; the alarm rings in between if the race's time is over."""
        clock = self.budget
        if clock.spent and seconds > clock.left:
            self.time += max(0.0, clock.left)
            clock.rang = True
            raise KeyboardInterrupt
        self.time += seconds

    def measure(
        self,
        model: Any,
        trial: Trial,
        tasks: Any,
        basis: Basis,
        teachers: Any,
        encoded: Any,
        folds: Any,
    ) -> Measured:
        self.work(sum(map(words_read, texts_read(tasks, basis, trial.steps))) / self.speed)
        encoded()
        score = trial.pairs / 1e6 + len(trial.recipe) / 1e3
        names = [name for name, _ in trial.candidates()]
        scores = {name: {task.name: np.full(task.size, score) for task in tasks} for name in names}
        return Measured(scores, {}, [], dict.fromkeys(names[1:], Fitted(np.zeros(1), np.eye(1))))

    def train(self, documents: Any, *, overrides: tuple[str, ...], **_: Any) -> None:
        told = dict(setting.split("=") for setting in overrides)
        pairs = float(told["train.epochs"]) * int(told["pairs.rounds"]) * self.trained_on
        self.work(10 + pairs / self.pairs)
        self.trained.append(round(pairs))


def test_a_training_gives_way_to_its_average_if_both_are_equally_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced = (machine := Machine(4500, 50, monkeypatch)).run(machine.race(tmp_path / "race"))
    noise = np.random.default_rng(0).normal(0, 1e-3, 5000)  # else no gain has a p-value
    for name in raced.scores.keys() - {AS_IS}:
        raced.scores[name] = {
            task: of + noise[: len(of)] for task, of in raced.scores[name].items()
        }
    choice, gains = raced.choose()
    training = choice.replace(", averaged", "")
    assert training != choice
    assert gains[training].gain == gains[choice].gain == max(gain.gain for gain in gains.values())


MACHINES = {  # words and pairs a second: the least number of trainings
    "MiniLM, two cores": (4500, 50, 3), "MiniLM, one core": (2250, 25, 2), "tiny": (60_000, 800, 5),
    "trains much slower than it reads": (4500, 10, 1), "BERT-base": (560, 6, 1), "a large model": (160, 1.5, 0),
}  # fmt: skip
USUAL = ("MiniLM, two cores", "a large model")


@pytest.mark.parametrize(
    "which",
    [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in MACHINES],
)
def test_twenty_minutes_end_within_twenty_two(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed, pairs, least = MACHINES[which]
    machine = Machine(speed, pairs, monkeypatch)
    raced = machine.run(machine.race(tmp_path))
    assert AS_IS in raced.scores
    assert machine.time + raced.budget.kept_back <= 1.1 * 1200
    assert len(machine.trained) >= least, raced.left_out
    assert machine.time > 450 or not machine.trained, "the time is used"


def test_a_small_budget_shrinks_the_trainings_and_cuts_no_query_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MiniLM on two cores in 3 and 8 minutes: a training of less than 1,024 pairs is better than
    none.
    """
    for minutes in (3, 8):
        machine = Machine(4500, 30, monkeypatch)
        raced = machine.run(
            machine.race(tmp_path / str(minutes), 60 * minutes, recipes=RECIPES[:1], trained_on=100)
        )
        assert machine.trained, raced.left_out
        assert raced.needed() == ""
    assert {len(cases) for of in raced.scores.values() for cases in of.values()} == {300}
    assert "to save time" not in str([line for line in raced.told if "queries" in line])


def test_what_maps_read_is_planned_once_and_not_for_every_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the queries of all tasks would be cut for it."""
    machine = Machine(4500, 30, monkeypatch)
    raced = machine.race(tmp_path, 60 * 8)
    assert raced.plan_size(4500, 384)
    assert raced.tasks[0].size >= 200


def test_without_time_for_any_training_it_says_how_much_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Machine(20, 0.1, monkeypatch)
    raced = slow.run(slow.race(tmp_path / "slow"))
    assert not raced.scores
    assert raced.needed().startswith("trainings of this model need about ")
    assert not (tmp_path / "slow" / NOTES).exists()
    short = Machine(4500, 50, monkeypatch)
    raced = short.run(short.race(tmp_path / "short", 60))
    assert AS_IS in raced.scores
    minutes = int(raced.needed().split("about ")[1].split()[0])
    enough = Machine(4500, 50, monkeypatch)
    assert (
        len(enough.run(enough.race(tmp_path / "enough", 1.5 * 60 * minutes)).trials)
        > len(RECIPES) / 2
    )
    few = Machine(4500, 50, monkeypatch)
    raced = few.run(few.race(tmp_path / "few", trained_on=30))
    assert set(raced.left_out.values()) == {"there are too few documents"}


def test_each_recipe_is_trained_shortly_the_better_half_for_longer_and_the_best_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recipes(raw=True, titled=True)
    machine = Machine(60_000, 500, monkeypatch)
    machine.run(machine.race(tmp_path, recipes=found, trained_on=20_000))
    plans = read_record(tmp_path / NOTES)["plans"]
    assert list(plans["first"]) == [recipe.name for recipe in found]
    assert len(set(plans["first"].values())) == 1
    second = [
        max(plan.values(), default=0) for name, plan in plans.items() if name.startswith("second: ")
    ]
    assert len(second) == 2
    assert second[0] > max(plans["first"].values())


def test_what_did_not_fit_at_first_is_tried_if_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(2250, 12, monkeypatch)
    raced = machine.run(machine.race(tmp_path))
    plans = read_record(tmp_path / NOTES)["plans"]
    names = [recipe.name for recipe in RECIPES][len(plans["first"]) :]
    tried = [name for name in names if plans[f"last: {name}"]]
    assert tried == names[: len(tried)], "in their order"
    assert set(names[len(tried) :]) <= raced.left_out.keys()
    assert machine.time > 1000


def test_a_race_that_goes_on_does_what_was_planned_and_a_plan_is_repeated_without_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(4500, 50, monkeypatch)
    first = machine.run(machine.race(tmp_path / "first"))
    again = Machine(4500, 50, monkeypatch)
    second = again.run(again.race(tmp_path / "first"))
    assert not again.trained, "nothing is trained twice"
    slow = Machine(10, 0.1, monkeypatch)
    third = slow.race(tmp_path / "again", float("inf"))
    third.repeat(first.plan)
    for raced in (second, third):
        assert raced.plan == first.plan
        assert raced.scores.keys() == first.scores.keys()


def test_after_the_time_is_over_a_teacher_that_is_read_again_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill at the very end, what was measured is still known, so the race goes on to its
    result.
    """

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    machine = Machine(4500, 50, monkeypatch)
    machine.run(machine.race(tmp_path))
    raced = machine.race(tmp_path)
    raced._teaching = {"teacher": "its folder"}
    raced.budget.kept["teachers"] = {"teacher": 60.0}
    monkeypatch.setattr(racing, "read_teacher", interrupted)
    with pytest.raises(KeyboardInterrupt):
        raced.teach()  # Ctrl-C
    raced.budget.rang = True
    raced.teach()
    assert raced.poolings([None]) is None
    assert AS_IS in raced.scores


def test_damaged_notes_count_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NOTES).write_text("{")
    machine = Machine(4500, 50, monkeypatch)
    assert machine.run(machine.race(tmp_path, recipes=[])).scores.keys() >= {"keep"}


def test_a_training_that_fails_is_left_out_but_a_full_disk_ends_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced = Machine(4500, 50, monkeypatch).race(tmp_path)
    raced.budget.keep(measuring=1.0, speed=4500.0)
    monkeypatch.setattr(Maker, "work", refusing(None))
    raced.run(Trial("crops, 4,096 pairs", None, "crops", 4096))
    assert raced.left_out == {"crops, 4,096 pairs": "refused"}, "its shorter training stays"
    monkeypatch.setattr(Maker, "work", refusing(OSError(28, "No space left")))
    with pytest.raises(UserError, match="refused"):
        raced.run(Trial("crops, 2,048 pairs", None, "crops", 2048))


def refusing(cause: OSError | None) -> Any:
    def refuse(*_: object) -> None:
        raise UserError("refused", "free some space") from cause

    return refuse


def test_what_does_not_fit_any_more_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(5000, 50, monkeypatch)
    write_json(
        tmp_path / NOTES, {"spent": 0, "left_out": {}, "size": {"queries": 60, "fitted_on": 30}}
    )
    raced = machine.race(tmp_path)
    assert (raced.tasks[0].size, len(raced.basis.documents), len(raced.told)) == (60, 30, 2)
    raced.budget.keep(measuring=10.0, speed=5000.0)
    machine.time = 1150.0
    raced.run(Trial("crops, 4,096 pairs", None, "crops", 4096))
    machine.time = 1195.0
    raced.run(Trial("pooling mean", "mean"))
    assert raced.left_out == {"crops, 4,096 pairs": NO_TIME, "pooling mean": NO_TIME}
    assert read_record(tmp_path / NOTES)["left_out"] == raced.left_out, (
        "a race that goes on leaves it out too"
    )
