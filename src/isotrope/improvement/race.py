"""The race: cheap candidates first, then trainings, until the time is over.

If time is left in the end, everything is measured on all queries, if there were fewer before. What
was done is a plan, which another race can repeat without a clock: how much was measured, and each
trial with its pairs.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.progress import watch
from isotrope.encoder.embed import freed_memory
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.improvement.budget import SAFETY, Budget, Size
from isotrope.improvement.candidates import RANKINGS, Maker, Trial, for_queries, joined
from isotrope.improvement.decide import (
    AS_IS,
    CandidateGain,
    TaskScores,
    choose_in_turn,
    mean_score,
    more_cases,
)
from isotrope.improvement.measure import Kept, Measured, judging_folds, measure_trial, size_within
from isotrope.improvement.steps import (
    MAPS,
    POST_STEPS,
    WHITENED_ON,
    WHITENINGS,
    Basis,
    Task,
    texts_read,
    words_read,
)
from isotrope.improvement.teachers import Reranker, TeachingModel, read_teacher

NO_TIME = "too little time was left"
TEACHING = 0.3  # of the time: what a further teacher may take to read all texts
NO_TEACHER = "there is no teacher of rankings, because none finds more than the model"


class Race:
    """Measures candidates in a folder. What is there already is not measured again."""

    scores: dict[str, TaskScores]  # candidate -> task -> (Q,)
    trials: list[Trial]  # the encoders that were measured, in order
    teachers: dict[str, TeachingModel | Reranker]  # further models that may teach rankings
    first: Measured  # what is known of the model as it is, where searches judge
    told: list[str]  # what was done to save time, in words

    def __init__(
        self,
        maker: Maker,
        tasks: Sequence[Task],
        basis: Basis,
        budget: Budget,
        console: Console,
        others: Mapping[str, Maker] | None = None,
        teachers: Mapping[str, str] | None = None,
    ) -> None:
        self.maker, self.budget, self.console = maker, budget, console
        self._teaching = teachers or {}  # name -> where it is
        self.makers = {"": maker, **(others or {})}  # by the model that they begin with
        self._all_tasks, self._all_basis = tasks, basis
        self._most = max((task.size for task in tasks), default=0)
        # encoder or recipe -> why it could not be tried
        self.left_out: dict[str, str] = budget.kept["left_out"]
        self.made: dict[str, tuple[Trial, str]] = {}  # candidate -> its encoder and its post step
        self._begin(
            Size(**budget.kept.get("size", {"queries": self._most, "fitted_on": WHITENED_ON}))
        )

    def _begin(self, size: Size) -> None:
        """Measure so much from now on, and begin with nothing measured."""
        self._size, self.told = size, size.told(self._most, WHITENED_ON)
        self.kept = Kept(self.maker.folder, size)
        self.tasks = [task.part(size.queries) for task in self._all_tasks]
        self.basis = self._all_basis.part(size.fitted_on)
        self.folds = judging_folds(self.basis, self.tasks) if size.folds else []
        if self.folds:
            self.told.append(
                "all documents judge the post steps, each those that were fitted without it"
            )
        self.scores, self.trials, self.teachers = {}, [], {}
        self.first = Measured({}, {}, [])

    def texts(self, steps: Sequence[str] | None = None) -> list[str]:
        """All that is read to measure one encoder with these post steps; None: the model as it is,
        with all of them.
        """
        folds = [task for fold in self.folds for task in fold.tasks] if steps is None else []
        queries, documents = texts_read(
            [*self.tasks, *folds], self.basis, POST_STEPS if steps is None else steps
        )
        return [*queries, *documents]

    @property
    def documents(self) -> dict[str, Any]:
        """Task -> of which document each of its cases is."""
        return {task.name: task.documents for task in self.tasks if isinstance(task, DocumentTask)}

    @property
    def plan(self) -> dict[str, Any]:
        """What was done, for `repeat`."""
        kept, trials = self.budget.kept, [asdict(trial) for trial in self.trials]
        read = {"teachers": list(kept["teachers"])} | {
            key: kept[key] for key in ("asked", "questions")
        }
        return {"size": asdict(self._size), "trials": trials, "left_out": self.left_out, **read}

    def choose(self) -> tuple[str, dict[str, CandidateGain]]:
        """What `choose_in_turn` says of all that was measured; "keep" if nothing was."""
        if not self.scores:
            return AS_IS, {}
        alike = {
            name: self.makers[trial.start].alike(trial) for name, (trial, _) in self.made.items()
        }
        kept = [
            name
            for name, (trial, step) in self.made.items()
            if for_queries(asdict(trial) | {"step": step})
        ]
        milder = {
            name: joined(trial.averaged.name, step) for name, (trial, step) in self.made.items()
        }
        crossed, of, seed = self.first.crossed, self.first.crossed_of, self.maker.seed
        return choose_in_turn(
            self.scores, alike, self.documents, crossed, of, kept=kept, milder=milder, seed=seed
        )

    def judged(self, candidate: str) -> tuple[TaskScores, TaskScores]:
        """The scores of "keep" and of a candidate on all that judged it."""
        found = self.scores[AS_IS], self.scores[candidate]
        if candidate not in self.first.crossed:
            return found
        return more_cases(found[0], self.first.crossed[AS_IS]), more_cases(
            found[1], self.first.crossed[candidate]
        )

    def plan_size(self, speed: float, dimensions: int) -> bool:
        """Decide how much is measured, from the words that the model reads in a second -> whether
        there is any time.
        """
        if "size" in (kept := self.budget.kept):
            return True
        kept["speed"] = speed
        size = size_within(self.budget.left * speed, self.tasks, self.basis, dimensions)
        if size:
            kept["size"] = asdict(size)
            self._begin(size)
        return size is not None

    def needed(self) -> str:
        """If there was no time for any training: how much a race with all of them needs, by what is
        known by now.
        """
        if (NO_TIME not in self.left_out.values() and self.scores) or any(
            trial.pairs for trial in self.trials
        ):
            return ""
        return self.budget.needed(len(self.maker.recipes), words_read(self.texts()))

    def teach(self) -> None:
        """Let further models read all texts, so that they can teach. One that would take too long
        is left out.
        """
        # seconds; queries of a cross-encoder
        taken, asked = self.budget.kept["teachers"], self.budget.kept["asked"]
        for name, where in self._teaching.items():
            if name in self.left_out:
                continue
            began, limit = (
                self.budget.spent,
                float("inf") if name in taken else TEACHING * self.budget.left,
            )
            try:
                with watch("reading", self.console, name), self.budget.alarm():
                    found = read_teacher(where, self.tasks, self.basis, limit, asked.get(name, 0))
            except KeyboardInterrupt:
                if not self.budget.rang:
                    raise
                return  # what it has taught before is kept, and nothing new is measured any more
            except UserError as error:
                self.leave_out(name, error.problem)
                continue
            self.teachers[name] = found
            if isinstance(found, Reranker):
                asked[name] = found.count
            taken[name] = self.budget.spent - began
            self.budget.keep()

    def poolings(self, poolings: Sequence[str | None]) -> str | None:
        """Measure the model as it is, which comes first, and with other poolings -> the best of
        them.
        """
        trials = [
            Trial(f"pooling {pooling}" if place else AS_IS, pooling)
            for place, pooling in enumerate(poolings)
        ]
        measured = [trial for trial in trials if self.run(trial)]
        return max(measured, key=lambda trial: mean_score(self.scores[trial.name])).pooling

    def starts(self) -> str:
        """Measure the other models to begin with -> the best start: "" is the model that was given."""
        for name in list(self.makers)[1:]:
            self.run(Trial(name, start=name))
        untrained = {
            name: trial.start for name, (trial, _) in self.made.items() if not trial.recipe
        }
        return untrained[max(untrained, key=lambda name: mean_score(self.scores[name]))]

    def helpful(self) -> list[str]:
        """The whitenings that raised the score of any model that is not trained."""
        score = {name: mean_score(scores) for name, scores in self.scores.items()}
        raised = {
            step
            for name, (trial, step) in self.made.items()
            if not trial.recipe and score[name] > score[trial.name]
        }
        return [step for step in WHITENINGS if step in raised]

    def repeat(self, plan: Mapping[str, Any]) -> None:
        """Do what another race has done. See `check_plan`."""
        self._begin(Size(**plan["size"]))
        self.left_out |= plan["left_out"]
        # a plan that was written by hand need not say it
        self.budget.kept["asked"] = plan.get("asked", {})
        self.teach()
        for of in plan["trials"]:
            self.run(Trial(**of))

    def widen(self) -> None:
        """Measure everything on all queries, if there were fewer to save time and if there is time
        for it now.
        """
        if self._size.queries >= self._most:
            return
        words = sum(map(words_read, texts_read(self._all_tasks, self.basis, tuple(WHITENINGS))))
        wanted = len(self.trials) * words / self.budget.speed + sum(
            self.budget.kept["teachers"].values()
        )
        if not self.budget.kept.get("widened") and SAFETY * self.budget.left < wanted:
            return
        self.budget.keep(widened=True)
        before, trials = vars(self).copy(), self.trials
        self._begin(replace(self._size, queries=self._most))
        try:
            self.teach()
            for trial in trials:
                self.run(trial)
        except KeyboardInterrupt:  # some on all queries and others on a part cannot be compared
            vars(self).update(before)
            raise

    def model(self, candidate: str) -> SentenceTransformer:
        """The encoder of a candidate, with its post step as its last layer."""
        trial, step = self.made[candidate]
        encoder = self.makers[trial.start].encoder(trial)
        return self.kept.step(trial, candidate).after(encoder) if step else encoder

    def run(self, trial: Trial) -> bool:
        """Make an encoder and add the scores of its candidates, as far as there is time -> whether
        it is measured.
        """
        if trial.name in self.scores:
            return True
        if trial.name in self.left_out or not self._prepared(trial):
            return False
        known = (
            self.kept.read(trial)
            if trial.name != AS_IS or "measuring" in self.budget.kept
            else None
        )
        if not known:
            if trial.name != AS_IS and self.budget.measuring > self.budget.left:
                return self.leave_out(trial.name, NO_TIME)
            known = self._measured(trial)
            self.kept.write(trial, known)
            self.budget.keep()
        self.scores |= known.scores
        if trial.name == AS_IS and known.hybrids:
            self.first = known
            for name, score in known.teachers.items():
                self.console.print(f"teacher {name}: {100 * score:.2f}")
            if not known.taught_by:
                self.leave_out(", ".join(MAPS), NO_TEACHER)
        self.made |= {
            name: (trial, step) for name, step in trial.candidates() if name in known.scores
        }
        self.trials.append(trial)
        score, done = (
            mean_score(known.scores[trial.name]),
            f"{len(self.scores)} candidates are done",
        )
        self.console.print(f"{trial.name}: {100 * score:.2f} ({done}{self.budget.told})")
        return True

    def _measured(self, trial: Trial) -> Measured:
        freed_memory.give_back()  # what trainings and measurements have left
        first, began = trial.name == AS_IS, self.budget.spent

        def encoded() -> None:
            if first:
                speed = words_read(self.texts()) / (self.budget.spent - began)
                self.budget.keep(
                    measuring=words_read(self.texts(tuple(WHITENINGS))) / speed, speed=speed
                )

        with (
            watch("measuring", self.console, trial.name),
            nullcontext() if first else self.budget.alarm(),
        ):
            encoder = self.makers[trial.start].encoder(trial)
            folds = self.folds if first else []
            return measure_trial(
                encoder, trial, self.tasks, self.basis, self.teachers, encoded, folds
            )

    def _prepared(self, trial: Trial) -> bool:
        """Do the work that comes before an encoder, if that is not done already -> whether it is
        done.
        """
        kept, run = self.budget.kept["trained"], trial.run
        if not run or run in kept:
            return True
        rankings = self.kept.rankings(trial, self.basis) if trial.recipe == RANKINGS else None
        # a plan may come from a machine with other last digits
        if trial.recipe == RANKINGS and not rankings:
            return self.leave_out(trial.name, NO_TEACHER)
        model = self.makers[trial.start].trained(trial)
        seconds, begun = trial.pairs / self.budget.pairs_a_second, model.parent.is_dir()
        if seconds + self.budget.measuring > self.budget.left and not model.is_dir():
            return self.leave_out(trial.name, NO_TIME)
        began = self.budget.spent
        self.budget.keep()
        try:
            with watch("training", self.console, trial.name), self.budget.alarm():
                self.makers[trial.start].work(trial, rankings)
        except UserError as error:  # of this recipe, such as texts that are too long for the model
            if isinstance(error.__cause__, OSError):  # of the machine, such as a full disk
                raise
            return self.leave_out(trial.name, error.problem)
        # of one that was killed, a part is lost
        spent = max(self.budget.spent - began, seconds if begun else 0)
        kept[run] = {"pairs": trial.pairs, "seconds": spent}
        self.budget.keep()
        return True

    def leave_out(self, name: str, why: str) -> bool:
        self.left_out[name] = why
        self.console.print(f"{name}: left out, {why}")
        self.budget.keep()
        return False
