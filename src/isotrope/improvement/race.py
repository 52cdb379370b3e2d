"""The race: cheap candidates first, then trainings, until the time is over.

Trainings run twice. First each gets the same short time. Then the better half is trained anew with more pairs, and
averaged with the start model. If time is left then, recipes that did not fit at first are tried. The speed of this
machine decides how many pairs fit into the time, and how much a candidate is measured on. The plan is kept: a stopped
race goes on with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.average import average
from isotrope.encoder.embed import cut, vectors_of
from isotrope.encoder.memory import freed_memory
from isotrope.errors import UserError
from isotrope.improvement.budget import Amount, Size, measurement_size
from isotrope.improvement.candidates import SHARES, Training, Trial, joined, linear_step
from isotrope.improvement.clock import Clock
from isotrope.improvement.decide import AS_IS, TaskScores, mean_score
from isotrope.improvement.judges import Judge
from isotrope.improvement.measure import JUDGED_LENGTH, measure_trial, read_scores, speed_of, words_read, write_scores
from isotrope.post.saved import with_linear
from isotrope.store.atomic import write_json
from isotrope.store.records import read_record
from isotrope.text.permutation import evenly
from isotrope.training.folder import RunFolder
from isotrope.training.settings import RunSettings
from isotrope.training.train import run_training

BATCH, FEWEST_PAIRS, MOST_ROUNDS = 64, 1024, 8
FIRST_SHARE = 0.4  # of the time: the short trainings
SAFETY = 0.85  # of the time that a training is planned for: one that is not done at the end is lost
STEP_COST = 4  # a training step costs about as much as encoding its texts so many times
PAIR_WORDS = 32  # of two crops
NO_TIME = "too little time was left"
PLAN = "race.json"


@dataclass(frozen=True, slots=True)
class Start:
    """What the race begins with.

    Attributes:
        model, pooling: as `isotrope.load` takes them.
        documents: files and folders.
        title, text: their columns, in tables.
        held_out: documents that no candidate is trained or fitted on.
        trained_on: how many others there are.
        seed: of all random numbers.
    """

    model: str
    pooling: str | None
    documents: Sequence[str | Path]
    title: str | None
    text: str | None
    held_out: int
    trained_on: int
    seed: int


@dataclass(frozen=True, slots=True)
class Made:
    """How a candidate is made: an encoder, and a post step behind it."""

    pooling: str | None
    run: str = ""  # the name of its training; "" for the start model
    share: float = 1.0  # of the trained weights
    step: str = ""


class Race:
    """Measures candidates in a folder. What is there already is not measured again.

    Attributes:
        scores: candidate -> task -> (Q,).
        alike: candidate -> tasks that resemble its training.
        made: candidate -> how it is made.
        left_out: encoder or recipe -> why it could not be tried.
        told: what was done to save time, in words.
    """

    def __init__(
        self, start: Start, folder: Path, tasks: Sequence[Judge], fitted_on: Sequence[str], clock: Clock,
        console: Console,
    ) -> None:  # fmt: skip
        self.start, self.folder, self.tasks, self.fitted_on = start, folder, tasks, fitted_on
        self.clock, self.console = clock, console
        self.scores: dict[str, TaskScores] = {}
        self.alike: dict[str, frozenset[str]] = {}
        self.made: dict[str, Made] = {}
        self._recipes: dict[str, str] = {}  # candidate -> recipe
        self._plan: dict[str, Any] = read_record(folder / PLAN) if (folder / PLAN).is_file() else {}
        self.left_out: dict[str, str] = self._plan.setdefault("left_out", {})
        self.told: list[str] = []
        if "size" in self._plan:
            self._cut(Size(**self._plan["size"]))

    @property
    def speed(self) -> float:
        """Words that the model as it is reads in a second."""
        return float(self._plan["speed"])

    def plan_size(self, model: SentenceTransformer) -> None:
        """Decide how much is measured, from the speed of the model as it is on a few texts. Nothing is written.

        Raises:
            UserError: this model is too slow for the time that there is.
        """
        if "size" in self._plan:
            return
        speed, dimensions = speed_of(model, self._texts(), self.clock)
        fitted = Amount(len(self.fitted_on), words_read(self.fitted_on) / max(1, len(self.fitted_on)))
        tasks = [Amount(task.size, words_read(task.texts) / task.size) for task in self.tasks]
        size = measurement_size(self.clock.left, speed, fitted, tasks, dimensions)
        if size is None:
            problem = f"minutes = {self.clock.seconds / 60:g} is too short: the model reads {speed:.0f} words a second"
            raise UserError(problem, "give it more time, or choose a smaller model")
        self._plan["size"] = asdict(size)
        self._cut(size)

    def poolings(self, poolings: Sequence[str | None]) -> str | None:
        """Measure the model as it is, which comes first, and with other poolings -> the best of them alone."""
        names = {AS_IS if place == 0 else f"pooling {pooling}": pooling for place, pooling in enumerate(poolings)}
        for name, pooling in names.items():
            self._measured(Trial(name), Made(pooling))
        return names[max(self.scores.keys() & names.keys(), key=lambda name: mean_score(self.scores[name]))]

    def trainings(self, recipes: Sequence[Training], pooling: str | None, steps: Sequence[str]) -> None:
        """Train and measure: recipes for a short time, then the better half for longer, then the other recipes.

        Args:
            recipes: those that come first are kept where the time is too short for all.
            pooling: of the students.
            steps: post steps behind the trained models.
        """
        by_name = {recipe.name: recipe for recipe in recipes}
        first = self._pairs("first", list(by_name), FIRST_SHARE, SHARES[:1])
        for name, pairs in first.items():
            self._trained(by_name[name], pairs, pooling, steps, SHARES[:1])
        done = [name for name in first if name in self._recipes.values()]
        best = sorted(done, key=self._best_of, reverse=True)[: (len(first) + 1) // 2]
        for place, name in enumerate(best):
            share = 2 / (len(best) - place + 1)  # of the time left: of three, the best gets 3 : 2 : 1
            pairs = max(self._pairs(f"second: {name}", [name], share, SHARES).values(), default=0)
            self._trained(by_name[name], pairs if pairs > 1.5 * first[name] else first[name], pooling, steps, SHARES)
        why = "there are too few documents" if MOST_ROUNDS * self.start.trained_on < FEWEST_PAIRS else NO_TIME
        for name in (name for name in by_name if name not in first and name not in self.left_out):
            if last := self._pairs(f"last: {name}", [name], 1, SHARES[:1]):
                self._trained(by_name[name], min([*last.values(), *first.values()]), pooling, steps, SHARES[:1])
            else:
                self._leave_out(name, why)

    def model(self, candidate: str) -> SentenceTransformer:
        """The encoder of a candidate, with its post step as its last layer."""
        encoder = self._encoder(made := self.made[candidate])
        if not made.step:
            return encoder
        with cut(encoder, JUDGED_LENGTH):
            vectors = vectors_of(encoder, list(self.fitted_on), batch_size=32)
        return with_linear(encoder, *linear_step(made.step).linear(np.asarray(vectors, dtype=np.float64)))

    def run(self, name: str) -> RunFolder:
        """The folder of a training."""
        return RunFolder(self.folder / "runs" / name)

    def _encoder(self, made: Made) -> SentenceTransformer:
        start = load(self.start.model, made.pooling)
        trained = load(self.run(made.run).model) if made.run else start
        return trained if made.share == 1 else average(start, trained, made.share)

    def _measured(self, trial: Trial, made: Made) -> None:
        """Add the scores of a trial's candidates."""
        path = self.folder / "scores" / f"{_slug(trial.name)}.npz"
        if not (found := read_scores(path)):
            first = trial.name == AS_IS  # without it there is no choice
            if not first and self._plan["measuring"] > self.clock.left:
                self._leave_out(trial.name, NO_TIME)
                return
            freed_memory.give_back()  # what trainings and measurements have left
            began = self.clock.spent
            with watch("measuring", self.console, trial.name), nullcontext() if first else self.clock.alarm():
                measured = measure_trial(self._encoder(made), trial, self.tasks, self.fitted_on)
            if first:
                seconds = self.clock.spent - began
                self.note(measuring=seconds, speed=words_read(self._texts()) / seconds)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_scores(path, measured)
            self.note()
        self.scores |= found or measured
        for name, step in trial.candidates():
            if name in self.scores:
                self.made[name], self.alike[name] = Made(made.pooling, made.run, made.share, step), trial.alike
                self._recipes[name] = trial.recipe
        self.console.print(f"{trial.name}: {100 * mean_score(self.scores[trial.name]):.2f}")

    def _cut(self, size: Size) -> None:
        """Measure so much from now on, all candidates alike."""
        self.told = size.told(max((task.size for task in self.tasks), default=0), len(self.fitted_on))
        self.tasks = [task.part(size.queries) for task in self.tasks]
        self.fitted_on = [self.fitted_on[place] for place in evenly(len(self.fitted_on), size.fitted_on)]

    def _trained(
        self, recipe: Training, pairs: int, pooling: str | None, steps: Sequence[str], shares: Sequence[float] = SHARES
    ) -> None:
        told = joined(recipe.name, f"{pairs:,} pairs")
        if told in self.left_out:
            return
        name = f"{_slug(recipe.name)}-{pairs}"
        run, kept = self.run(name), self._plan.setdefault("trained", {})
        seconds = pairs / self._pairs_a_second()  # planned
        if not run.finished:
            if seconds + len(shares) * self._plan["measuring"] > self.clock.left:
                self._leave_out(told, NO_TIME)
                return
            begun, began = run.begun, self.clock.spent
            self.note()
            try:
                with self.clock.alarm():
                    run_training(training_settings(self.start, recipe, run.path, pairs, pooling), self.console)
            except UserError as error:  # of this recipe, such as texts that are too long for the model
                if isinstance(error.__cause__, OSError):  # of the machine, such as a full disk
                    raise
                self._leave_out(told, error.problem)
                return
            seconds = max(self.clock.spent - began, seconds if begun else 0)  # of one that was killed, a part is lost
        if name not in kept:
            kept[name] = {"pairs": pairs, "seconds": seconds}
            self.note()
        for share in shares:
            trial = joined(told, "averaged" if share != 1 else "")
            self._measured(Trial(trial, recipe.alike, recipe.name, tuple(steps)), Made(pooling, name, share))

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        self.console.print(f"{name}: left out, {why}")
        self.note()

    def _texts(self) -> list[str]:
        """All that is read to measure one encoder."""
        return list(dict.fromkeys([*self.fitted_on, *(text for task in self.tasks for text in task.texts)]))

    def _pairs(self, stage: str, recipes: Sequence[str], share: float, shares: Sequence[float]) -> Mapping[str, int]:
        """Training -> how many pairs it gets in this stage; the last ones are left out if the time is too short."""
        plans = self._plan.setdefault("plans", {})
        if stage not in plans:
            plans[stage] = {}
            for count in range(len(recipes), 0, -1):
                seconds = SAFETY * share * (self.clock.left - self._plan["measuring"]) / count
                seconds -= len(shares) * self._plan["measuring"]
                pairs = min(int(self._pairs_a_second() * seconds), MOST_ROUNDS * self.start.trained_on)
                if pairs >= FEWEST_PAIRS:
                    plans[stage] = dict.fromkeys(recipes[:count], pairs // BATCH * BATCH)
                    break
            self.note()
        return dict(plans[stage])

    def _pairs_a_second(self) -> float:
        """As the trainings so far were; before the first one, estimated from the speed of encoding."""
        if trained := list(self._plan.get("trained", {}).values()):
            return float(sum(of["pairs"] for of in trained) / sum(of["seconds"] for of in trained))
        return self.speed / (PAIR_WORDS * STEP_COST)

    def _best_of(self, recipe: str) -> float:
        return max(mean_score(scores) for name, scores in self.scores.items() if self._recipes[name] == recipe)

    def note(self, **more: Any) -> None:
        """Keep the plan and the time that was used."""
        self._plan |= more
        write_json(self.folder / PLAN, self._plan | {"spent": self.clock.spent})


def training_settings(start: Start, recipe: Training, output: Path, pairs: int, pooling: str | None) -> RunSettings:
    """The run of a recipe on so many pairs."""
    rounds = -(-pairs // start.trained_on)  # a short document may have fewer pairs: then training is shorter
    return RunSettings(
        corpus=start.documents, output=output, preset=recipe.preset, backbone=start.model, title=start.title,
        text=start.text, held_out=start.held_out, dev="none", test="none", seed=start.seed, resume=True,
        overrides=(
            *recipe.overrides, f"pairs.rounds={rounds}", f"train.batch_size={BATCH}", "train.eval_steps=1000000",
            f"train.epochs={pairs / (rounds * start.trained_on):.4f}",
            *([f"encoder.pooling={pooling}"] if pooling else []),
        ),
    )  # fmt: skip


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
