"""The race: it does a plan, and looks at the clock between two candidates only.

Cheap candidates come first, then short trainings, then longer ones of the better half, each
averaged with the model that it began with. What does not fit into the time is left out by name.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ValidationError
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.progress import watch
from isotrope.encoder.embed import freed_memory
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings
from isotrope.improvement.candidates import (
    RANKINGS,
    Candidate,
    CandidateTrainer,
    MadeCandidate,
    join_names,
)
from isotrope.improvement.choose import choose_finalists
from isotrope.improvement.clock import Clock
from isotrope.improvement.cross_fit import QUICK_STEPS, Fold
from isotrope.improvement.measure import CandidateScores, RaceFiles, measure_candidate
from isotrope.improvement.plan import Plan, reads_maps
from isotrope.improvement.scores import (
    KEEP,
    CandidateTable,
    SearchScores,
    TaskScores,
    mean_score,
)
from isotrope.improvement.steps import MAPS, WHITENINGS, FittingSet
from isotrope.improvement.tasks import TaskSet, texts_to_encode
from isotrope.improvement.teachers import Rankings, read_teacher
from isotrope.store.files import read_record, write_json

NOTES = "race.json"
NO_TIME = "too little time was left"
NO_TEACHER = "there is no teacher of rankings, because no list of them finds more than the model"


class Notes(BaseModel):
    """What a race keeps in its folder, so that the same call goes on after a stop."""

    spent: float = 0.0  # seconds of earlier calls
    plan: Plan | None = None
    trained: list[str] = []  # trainings that are done
    left_out: dict[str, str] = {}  # name -> why
    planned: float = 0.0  # estimated seconds of all work that is done
    used: float = 0.0  # seconds that it took

    @classmethod
    def read(cls, folder: Path) -> "Notes":
        """The notes of a folder; a damaged file counts as missing."""
        with suppress(UserError, ValidationError):
            return cls.model_validate(read_record(folder / NOTES))
        return cls()

    def write(self, folder: Path, clock: Clock) -> None:
        """Keep the notes and the time that was used."""
        self.spent = clock.spent
        write_json(folder / NOTES, self.model_dump(mode="json"))

    @property
    def pace(self) -> float:
        """Seconds that work has taken for each second that was planned."""
        return self.used / self.planned if self.planned else 1.0


@dataclass
class Race:
    """Measures the candidates of a plan in a folder. What is there is not measured again."""

    plan: Plan
    trainers: Mapping[str, CandidateTrainer]  # by start; "" is the given model
    task_set: TaskSet  # the choosing tasks
    fitting_set: FittingSet
    folds: Sequence[Fold]  # of the fitting set; none if there is no time for them
    teachers: Mapping[str, str]  # name -> where the model is
    folder: Path
    notes: Notes
    clock: Clock
    console: Console

    scores: dict[str, TaskScores] = field(default_factory=dict)  # by candidate
    searches: SearchScores = field(default_factory=dict)  # the share 0 is the candidate alone
    encoders: list[Candidate] = field(default_factory=list)  # that were measured, in order
    made: dict[str, MadeCandidate] = field(default_factory=dict)  # by name
    given: CandidateScores = field(default_factory=CandidateScores)  # of the model as it is

    def run(self) -> None:
        """Do the plan."""
        self.notes.left_out.update(self.plan.left_out)
        for candidate in self.plan.candidates:
            self.try_candidate(candidate, candidate.name)
        if self.plan.short_trainings:
            self._train_in_turn()

    @property
    def table(self) -> CandidateTable:
        """What was measured so far, on the choosing tasks."""
        return CandidateTable(self.scores, self.task_set.documents)

    def finalists(self) -> list[str]:
        """The candidates that are to be judged: at most a quick step and another one.

        The fold that chooses sees the given model with quick steps too.
        """
        quick = {KEEP: self.scores[KEEP]}
        others = dict(self.scores)
        traits = {}
        for name, made in self.made.items():
            traits[name] = self.trainers[made.encoder.start].traits(made)
            if made.encoder.name == KEEP and made.step in QUICK_STEPS:
                quick[name] = others.pop(name)

        quick_table = CandidateTable(quick, self.task_set.documents)
        folds = self.given.cross_fitted.choosing
        if folds.scores:
            quick_table = quick_table.joined(folds)
        return choose_finalists(
            quick_table, CandidateTable(others, self.task_set.documents), traits
        )

    def model(self, name: str) -> SentenceTransformer:
        """The encoder of a candidate, with its post step as its last layer."""
        made = self.made[name]
        encoder = self.trainers[made.encoder.start].encoder(made.encoder)
        if not made.step:
            return encoder
        return self.files.step(made.encoder, name).add_to(encoder)

    def plan_done(self) -> Plan:
        """What was done, as a plan without any choice left."""
        return self.plan.model_copy(
            update={
                "candidates": tuple(self.encoders),
                "short_trainings": (),
                "long_trainings": (),
                "left_out": dict(self.notes.left_out),
            }
        )

    @property
    def files(self) -> RaceFiles:
        """What was measured, on this many documents."""
        return RaceFiles.of(self.folder, self.plan)

    def _train_in_turn(self) -> None:
        """Train each recipe briefly, and then the best of them for longer, from the same start.

        The plan says how many, and on how many pairs. A longer training is averaged with its start
        too.
        """
        start = max(self._untrained(), key=self._best_score)
        recipes = self._possible_recipes(start)
        for recipe in recipes[len(self.plan.short_trainings) :]:
            self.leave_out(recipe, NO_TIME)

        trained: dict[str, Candidate] = {}
        short = zip(recipes, self.plan.short_trainings, strict=False)
        for number, (recipe, pairs) in enumerate(short, start=1):
            candidate = self._training(start, recipe, pairs)
            if self.try_candidate(candidate, f"training {number}"):
                trained[recipe] = candidate

        ranked = sorted(trained, key=lambda recipe: -self._best_score(trained[recipe]))
        long = zip(ranked, self.plan.long_trainings, strict=False)
        for number, (recipe, pairs) in enumerate(long, start=1):
            candidate = self._training(start, recipe, pairs)
            if self.try_candidate(candidate, f"longer training {number}"):
                self.try_candidate(candidate.averaged(), "")  # no training

    def _training(self, start: Candidate, recipe: str, pairs: int) -> Candidate:
        steps = () if recipe == RANKINGS else self._helpful_whitenings()
        return Candidate(
            name=join_names(start.start, recipe, f"{pairs:,} pairs"),
            pooling=start.pooling,
            recipe=recipe,
            pairs=pairs,
            steps=steps,
            start=start.start,
        )

    def _possible_recipes(self, start: Candidate) -> list[str]:
        """The trainings of a start; that on rankings needs a teacher."""
        recipes = list(self.trainers[start.start].recipes)
        if RANKINGS in recipes and not self._rankings(start):
            self.leave_out(RANKINGS, NO_TEACHER)
            recipes.remove(RANKINGS)
        return recipes

    def _untrained(self) -> list[Candidate]:
        return [candidate for candidate in self.encoders if not candidate.recipe]

    def _best_score(self, candidate: Candidate) -> float:
        """The score of an encoder, alone or with its best post step."""
        return max(
            mean_score(self.scores[name])
            for name, made in self.made.items()
            if made.encoder.name == candidate.name
        )

    def _helpful_whitenings(self) -> tuple[str, ...]:
        """The whitenings that raised the score of any model that is not trained."""
        helpful = set()
        for name, made in self.made.items():
            alone = self.scores[made.encoder.name]
            if not made.encoder.recipe and mean_score(self.scores[name]) > mean_score(alone):
                helpful.add(made.step)
        return tuple(step for step in WHITENINGS if step in helpful)

    def try_candidate(self, candidate: Candidate, work: str) -> bool:
        """Make and measure an encoder, if it fits into the time -> whether it is measured.

        ``work`` is what the plan calls it, where it says how long that should take.
        """
        if candidate.name in self.scores:
            return True
        if candidate.name in self.notes.left_out:
            return False
        measured = self.files.read(candidate)
        if measured is None:
            seconds = self.plan.seconds.get(work, 0.0)
            if candidate.name != KEEP and not self._fits(seconds):
                return self.leave_out(candidate.name, NO_TIME)
            began = self.clock.spent
            if not self._is_trained(candidate):
                return False
            measured = self._measure(candidate)
            self.files.write(candidate, measured)
            self.notes.planned += seconds
            self.notes.used += self.clock.spent - began
            self._write_notes()
        self._add(candidate, measured)
        return True

    def _fits(self, seconds: float) -> bool:
        """Whether work of so many planned seconds leaves time for the verdict."""
        verdict = self.plan.seconds.get("judging", 0.0)
        return self.notes.pace * (seconds + verdict) <= self.clock.left

    def _add(self, candidate: Candidate, measured: CandidateScores) -> None:
        self.scores.update(measured.scores)
        for name, hybrids in measured.hybrids.items():
            self.searches[name] = {0.0: measured.scores[name], **hybrids}
        self.encoders.append(candidate)
        for name, step in candidate.with_steps():
            if name in measured.scores:
                self.made[name] = MadeCandidate(encoder=candidate, step=step)
        if candidate.name == KEEP:
            self._add_given(candidate, measured)
        score = 100 * mean_score(measured.scores[candidate.name])
        done = f"{len(self.scores)} candidates are done"
        self.console.print(f"{candidate.name}: {score:.2f} ({done}{self.clock})")

    def _add_given(self, candidate: Candidate, measured: CandidateScores) -> None:
        self.given = measured
        for name, score in measured.teachers.items():
            self.console.print(f"teacher {name}: {100 * score:.2f}")
        if reads_maps(candidate) and not measured.taught_by:
            self.leave_out(", ".join(MAPS), NO_TEACHER)

    def _measure(self, candidate: Candidate) -> CandidateScores:
        freed_memory.give_back()  # what trainings and measurements have left
        teachers = self.loaded_teachers if reads_maps(candidate) else {}
        folds = self.folds if candidate.name == KEEP else ()
        with watch("measuring", self.console, candidate.name):
            encoder = self.trainers[candidate.start].encoder(candidate)
            return measure_candidate(
                encoder, candidate, self.task_set, self.fitting_set, teachers, folds
            )

    @cached_property
    def loaded_teachers(self) -> dict[str, Embeddings]:
        """All texts that maps need, as each teacher of the plan encodes them."""
        teachers = {}
        texts = texts_to_encode(self.task_set.tasks, self.fitting_set, MAPS)
        for name in self.plan.teachers:
            with watch("reading", self.console, name):
                teachers[name] = read_teacher(self.teachers[name], *texts, self.console.print)
        return teachers

    def _is_trained(self, candidate: Candidate) -> bool:
        """Train a candidate if it must be and is not yet -> whether it is trained."""
        if not candidate.run or candidate.run in self.notes.trained:
            return True
        rankings = None
        if candidate.recipe == RANKINGS:
            rankings = self._rankings(candidate)
            if rankings is None:  # a plan may come from a machine with other last digits
                return self.leave_out(candidate.name, NO_TEACHER)
        self._write_notes()
        try:
            with watch("training", self.console, candidate.name):
                self.trainers[candidate.start].train(candidate, rankings)
        except UserError as error:
            if isinstance(error.__cause__, OSError):  # of the machine, such as a full disk
                raise
            return self.leave_out(candidate.name, error.problem)
        self.notes.trained.append(candidate.run)
        self._write_notes()
        return True

    def _rankings(self, candidate: Candidate) -> Rankings | None:
        """What teachers say to the model that a candidate begins with."""
        for start in self._untrained():
            if (start.start, start.pooling) == (candidate.start, candidate.pooling):
                return self.files.rankings(start, self.fitting_set)
        return None

    def leave_out(self, name: str, why: str) -> bool:
        """Note that a candidate is left out -> False."""
        if name not in self.notes.left_out:
            self.notes.left_out[name] = why
            self.console.print(f"{name}: left out, {why}")
            self._write_notes()
        return False

    def _write_notes(self) -> None:
        self.notes.write(self.folder, self.clock)
