"""The race: cheap candidates first, then trainings, until the time is over.

Trainings run twice. First each gets the same short time. Then the better half is trained anew with more pairs, and
averaged with the start model. If time is left then, recipes that did not fit at first are tried, and everything is
measured on all queries if there were fewer before. The speed of this machine decides how many pairs fit into the time.

What was done is a plan: how much was measured, and each trial with its pairs. Another race can repeat it, and needs no
clock for that.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.average import average
from isotrope.encoder.memory import freed_memory
from isotrope.errors import UserError
from isotrope.improvement.budget import FEWEST_OF_ONE, FIRST_SHARE, SAFETY, Amount, Notes, Size, measurement_size
from isotrope.improvement.candidates import (
    SHARES,
    Start,
    Training,
    Trial,
    joined,
    slug,
    training_settings,
)  # fmt: skip
from isotrope.improvement.decide import AS_IS, TaskScores, mean_score
from isotrope.improvement.judges import Judge
from isotrope.improvement.measure import (
    known_by,
    measure_trial,
    read_scores,
    speed_of,
    texts_of,
    words_read,
    write_scores,
)
from isotrope.improvement.steps import HYBRIDS, MAPS, POST_STEPS, WHITENED_ON, WHITENINGS, Basis, fitted_step
from isotrope.training.train import run_training

MOST_ROUNDS = 8
NO_TIME = "too little time was left"
NO_HELP = "BM25 is no teacher here, because the search finds less with it"


class Race:
    """Measures candidates in a folder. What is there already is not measured again.

    Attributes:
        scores: candidate -> task -> (Q,).
        made: candidate -> its encoder and its post step.
        trials: the encoders that were measured, in order.
        left_out: encoder or recipe -> why it could not be tried.
        told: what was done to save time, in words.
        hybrids: what searches that add BM25 would give, as `scores`; they are no candidates.
    """

    def __init__(
        self, start: Start, folder: Path, recipes: Sequence[Training], tasks: Sequence[Judge],
        basis: Basis, notes: Notes, console: Console,
    ) -> None:  # fmt: skip
        self.start, self.folder, self.notes, self.clock, self.console = start, folder, notes, notes.clock, console
        self.recipes = {recipe.name: recipe for recipe in recipes}
        self._all_tasks, self._all_basis = tasks, basis
        self.scores: dict[str, TaskScores] = {}
        self.made: dict[str, tuple[Trial, str]] = {}
        self.trials: list[Trial] = []
        self.hybrids: dict[str, TaskScores] = {}
        self._kept, self.left_out = notes.kept, notes.left_out
        self.tasks: Sequence[Judge] = tasks
        size = self._kept.get("size", {"queries": self._most, "fitted_on": WHITENED_ON})
        self._cut(Size(**size))

    @property
    def plan(self) -> dict[str, Any]:
        """What was done, for `repeat`."""
        trials = [asdict(trial) for trial in self.trials]
        return {"size": asdict(self._size), "trials": trials, "left_out": self.left_out}

    def alike(self) -> dict[str, frozenset[str]]:
        """Candidate -> tasks that resemble its training."""
        trained = {name: trial.recipe for name, (trial, _) in self.made.items() if trial.recipe}
        return {name: self.recipes[recipe].alike for name, recipe in trained.items()}

    def documents(self) -> dict[str, npt.NDArray[np.int64] | None]:
        """Task -> of which document each of its cases is; None if each is of its own, as labelled queries are."""
        return {task.name: getattr(task, "documents", None) for task in self.tasks}

    def plan_size(self, model: SentenceTransformer) -> bool:
        """Decide how much is measured, from the speed of the model as it is on a few texts. Nothing is written.

        Returns:
            Whether there is time to measure anything.
        """
        if "size" in self._kept:
            return True
        speed, dimensions = speed_of(model, self._texts(), self.clock)
        self._kept["speed"] = speed
        every = [text for side in self.basis.texts(tuple(POST_STEPS)) for text in side]
        fitted = Amount(WHITENED_ON, words_read(every) / WHITENED_ON)
        tasks = [Amount(task.size, words_read(task.texts) / task.size) for task in self.tasks]
        size = measurement_size(self.clock.left, speed, fitted, tasks, dimensions)
        if size is None:
            return False
        self._kept["size"] = asdict(size)
        self._cut(size)
        return True

    def needed(self) -> str:
        """If there was no time for any training: how much a race with all of them needs, by what is known by now."""
        if (NO_TIME not in self.left_out.values() and self.scores) or any(trial.recipe for trial in self.trials):
            return ""
        return self.notes.needed(len(self.recipes), words_read(self._texts()))

    def poolings(self, poolings: Sequence[str | None]) -> str | None:
        """Measure the model as it is, which comes first, and with other poolings -> the best of them."""
        trials = [Trial(f"pooling {pooling}" if place else AS_IS, pooling) for place, pooling in enumerate(poolings)]
        for trial in trials:
            self._measured(trial)
        measured = [trial for trial in trials if trial.name in self.scores]
        return max(measured, key=lambda trial: mean_score(self.scores[trial.name])).pooling

    def trainings(self, pooling: str | None, steps: Sequence[str]) -> None:
        """Train and measure: recipes for a short time, then the better half for longer, then the other recipes.

        Args:
            pooling: of the students.
            steps: post steps after the trained models.
        """
        most = MOST_ROUNDS * self.start.trained_on
        first = self.notes.pairs_in("first", list(self.recipes), FIRST_SHARE, 1, most)
        for name, pairs in first.items():
            self._tried(name, pairs, pooling, steps, SHARES[:1])
        done = [name for name in first if any(trial.recipe == name for trial in self.trials)]
        best = sorted(done, key=self._best_of, reverse=True)[: (len(first) + 1) // 2]
        for place, name in enumerate(best):
            share = 2 / (len(best) - place + 1)  # of the time left: of three, the best gets 3 : 2 : 1
            pairs = max(self.notes.pairs_in(f"second: {name}", [name], share, len(SHARES), most).values(), default=0)
            self._tried(name, pairs if pairs > 1.5 * first[name] else first[name], pooling, steps, SHARES)
        for name in [name for name in self.recipes if name not in first and name not in self.left_out]:
            if last := self.notes.pairs_in(f"last: {name}", [name], 1, 1, most):
                self._tried(name, min([*last.values(), *first.values()]), pooling, steps, SHARES[:1])
            else:
                self._leave_out(name, "there are too few documents" if most < FEWEST_OF_ONE else NO_TIME)

    def repeat(self, plan: Mapping[str, Any]) -> None:
        """Do what another race has done."""
        self._cut(Size(**plan["size"]))
        self.left_out |= plan["left_out"]
        trials = [Trial(**of) for of in plan["trials"]]
        if others := sorted({trial.recipe for trial in trials} - {"", *self.recipes}):
            problem = f"the plan has the training {others[0]}, which is not one for this model and these documents"
            raise UserError(problem, "repeat it with the model and the documents that it was made with")
        for trial in trials:
            if not trial.recipe or self._trained(trial, 1):
                self._measured(trial)

    def widen(self) -> None:
        """Measure everything on all queries, if there were fewer to save time and if there is time for it now."""
        if self._size.queries >= self._most:
            return
        part, self.tasks = self.tasks, self._all_tasks
        words = words_read(self._texts())
        self.tasks = part
        if not self._kept.get("widened"):
            if SAFETY * self.clock.left < len(self.trials) * words / self.notes.speed:
                return
            self.notes.keep(widened=True)
        before, trials = (self.scores, self._size), self.trials
        self._cut(Size(self._most, self._size.fitted_on))
        self.scores, self.trials = {}, []
        try:
            for trial in trials:
                self._measured(trial)
        except KeyboardInterrupt:  # some on all queries and others on a part cannot be compared
            (self.scores, size), self.trials = before, trials
            self._cut(size)
            raise

    def model(self, candidate: str) -> SentenceTransformer:
        """The encoder of a candidate, with its post step as its last layer."""
        trial, step = self.made[candidate]
        encoder = self._encoder(trial)
        if not step:
            return encoder
        return fitted_step(step, known_by(encoder, *self.basis.texts([step])), self.basis).after(encoder)

    def trained_model(self, run: str) -> Path:
        """The model of a training."""
        return self.folder / "runs" / run / "model"

    @property
    def _most(self) -> int:
        return max((task.size for task in self._all_tasks), default=0)

    def _encoder(self, trial: Trial) -> SentenceTransformer:
        start = load(self.start.model, trial.pooling)
        trained = load(self.trained_model(trial.run)) if trial.recipe else start
        return trained if trial.share == 1 else average(start, trained, trial.share)

    def _measured(self, trial: Trial) -> None:
        """Add the scores of a trial's candidates."""
        name = f"{slug(trial.name)}-{self._size.queries}-{self._size.fitted_on}.npz"
        path, first = self.folder / "scores" / name, trial.name == AS_IS
        found: Mapping[str, TaskScores] = {}
        if not first or "measuring" in self._kept:
            found = read_scores(path)
        if not found:
            if not first and self.notes.measuring > self.clock.left:
                self._leave_out(trial.name, NO_TIME)
                return
            freed_memory.give_back()  # what trainings and measurements have left
            began = self.clock.spent
            with watch("measuring", self.console, trial.name), nullcontext() if first else self.clock.alarm():
                found = measure_trial(self._encoder(trial), trial, self.tasks, self.basis)
            if first:
                seconds = self.clock.spent - began
                speed = words_read(self._texts()) / seconds
                after_training = words_read(self._texts(tuple(WHITENINGS)))
                self.notes.keep(measuring=after_training / speed, speed=speed)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_scores(path, found)
            self.notes.keep()
        self.hybrids |= {name: of for name, of in found.items() if name in HYBRIDS}
        self.scores |= {name: of for name, of in found.items() if name not in HYBRIDS}
        if first and self.hybrids and not any(name in self.scores for name in MAPS):
            self._leave_out(", ".join(MAPS), NO_HELP)
        self.made |= {name: (trial, step) for name, step in trial.candidates() if name in self.scores}
        self.trials.append(trial)
        self.console.print(f"{trial.name}: {100 * mean_score(self.scores[trial.name]):.2f}")

    def _cut(self, size: Size) -> None:
        """Measure so much from now on, all candidates alike."""
        self._size = size
        self.told = size.told(self._most, WHITENED_ON)
        self.tasks = [task.part(size.queries) for task in self._all_tasks]
        self.basis = self._all_basis.part(size.fitted_on)

    def _tried(
        self, recipe: str, pairs: int, pooling: str | None, steps: Sequence[str], shares: Sequence[float]
    ) -> None:
        """Train with a recipe, and measure the trained weights by themselves and averaged with the start."""
        name = joined(recipe, f"{pairs:,} pairs")
        if name in self.left_out or not self._trained(Trial(name, pooling, recipe, pairs), len(shares)):
            return
        known = {trial.name for trial in self.trials}
        for share in shares:
            trial = Trial(joined(name, "averaged" if share != 1 else ""), pooling, recipe, pairs, share, tuple(steps))
            if trial.name not in known:
                self._measured(trial)

    def _trained(self, trial: Trial, measurements: int) -> bool:
        """Train, if that is not done already -> whether there is a trained model."""
        kept, path = self._kept.setdefault("trained", {}), self.trained_model(trial.run).parent
        if trial.run in kept:
            return True
        seconds, begun = trial.pairs / self.notes.pairs_a_second, path.is_dir()
        if seconds + measurements * self.notes.measuring > self.clock.left and not (path / "model").is_dir():
            self._leave_out(trial.name, NO_TIME)
            return False
        began = self.clock.spent
        self.notes.keep()
        try:
            settings = training_settings(self.start, self.recipes[trial.recipe], path, trial)
            with watch("training", self.console, trial.name), self.clock.alarm():
                run_training(settings, plain_console(quiet=True))
        except UserError as error:  # of this recipe, such as texts that are too long for the model
            if isinstance(error.__cause__, OSError):  # of the machine, such as a full disk
                raise
            self._leave_out(trial.name, error.problem)
            return False
        spent = max(self.clock.spent - began, seconds if begun else 0)  # of one that was killed, a part is lost
        kept[trial.run] = {"pairs": trial.pairs, "seconds": spent}
        self.notes.keep()
        return True

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        self.console.print(f"{name}: left out, {why}")
        self.notes.keep()

    def _texts(self, steps: Sequence[str] = tuple(POST_STEPS)) -> list[str]:
        """All that is read to measure one encoder."""
        queries, documents = texts_of(self.tasks, self.basis, steps)
        return [*queries, *documents]

    def _best_of(self, recipe: str) -> float:
        return max(mean_score(self.scores[name]) for name, (trial, _) in self.made.items() if trial.recipe == recipe)
