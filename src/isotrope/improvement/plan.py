"""The plan of a race: what is done, in which order, and how long it should take.

`make_plan` turns minutes into a plan once, from the speed of reading and training. Then the race
does the plan and looks at the clock between two candidates only. A plan that was done is part of
the result, and can be repeated without a clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from isotrope.errors import UserError
from isotrope.improvement.candidates import BATCH, Candidate, CandidateTrainer
from isotrope.improvement.scores import KEEP
from isotrope.improvement.steps import MAPS, MOST_FITTING
from isotrope.store.files import read_record

# Shares of the time, each at most.
CHOOSING_SHARE = 1 / 30  # reading the choosing tasks, for one encoder
JUDGING_SHARE = 0.2  # reading the judging tasks, with the given model and two finalists
FITTING_SHARE = 0.3  # reading what maps are learned from, with all untrained encoders
CROSS_FITTING_SHARE = 0.1  # reading the tasks of the fitting set's folds, with one encoder
TEACHER_SHARE = 0.3  # of the time left: reading by one further teacher
SHORT_SHARE = 0.4  # of the time left for trainings: the short ones

SAFETY = 0.9  # of the time left that trainings are planned for
JUDGED_MODELS = 3
STARTING = 8.0  # seconds that a training takes before its first step
MAPS_SECONDS = 6.0  # learning both maps of an encoder, beside reading
CROSS_FITTING_SECONDS = 12.0  # fitting all quick steps once for each fold
SAVING = 10.0  # seconds after the race: the choice, the model, the report
FEWEST_CHOOSING = 50  # documents, or labels, unless there are fewer
FEWEST_JUDGING = 100
FEWEST_PAIRS = 1024  # of each of several trainings
FEWEST_PAIRS_OF_ONE = 256  # of the only training that there is time for
MOST_ROUNDS = 8  # pairs of each document


class Plan(BaseModel):
    """What a race does. All is counted in documents, queries and pairs; seconds are estimates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choosing: int  # documents, or labels, on which candidates are compared
    judging: int  # documents, or labels, that judge the chosen one
    fitting: int = MOST_FITTING  # documents that post steps are fitted on, at most
    cross_fitting: int = 0  # of these, those that judge quick steps that are fitted without them
    teachers: tuple[str, ...] = ()  # names of further models that read all texts
    candidates: tuple[Candidate, ...] = ()  # in this order
    short_trainings: tuple[int, ...] = ()  # pairs of each of the first recipes
    long_trainings: tuple[int, ...] = ()  # pairs of the better half's second trainings, best first
    left_out: dict[str, str] = {}  # name -> why
    seconds: dict[str, float] = {}  # name of a work -> estimate


@dataclass(frozen=True)
class Workload:
    """What is known before a plan is made."""

    seconds: float  # for all of it, from now on
    most_choosing: int  # documents, or labels
    most_judging: int
    words_choosing: float  # words of a document, or of a label, in the choosing tasks
    words_judging: float
    fitting_documents: int
    fitting_words: int  # words of all that maps are learned from
    whitening_words: int  # words of what whitening is fitted on
    general_words: int  # words of the general pairs
    reading: Mapping[str, float]  # start -> words that it reads in a second; "" is the given model
    training: float  # pairs a second of the slowest start
    untrained: Sequence[Candidate]
    judged_by_documents: bool  # not by labels
    recipes: int  # kinds of training
    most_pairs: int  # that a training has at most

    def choosing_and_judging(self) -> tuple[int, int]:
        """How many documents, or labels, there is time for."""
        words = self.seconds * self.reading[""]  # that can be read
        choosing = int(CHOOSING_SHARE * words / max(self.words_choosing, 1.0))
        judging = int(JUDGING_SHARE * words / JUDGED_MODELS / max(self.words_judging, 1.0))
        return (
            min(self.most_choosing, max(choosing, FEWEST_CHOOSING)),
            min(self.most_judging, max(judging, FEWEST_JUDGING)),
        )

    def fitting(self) -> int:
        """How many of the fitting documents there is time for."""
        seconds = sum(
            self.fitting_words / self.reading[candidate.start]
            for candidate in self.untrained
            if reads_maps(candidate)
        )
        share = min(1.0, FITTING_SHARE * self.seconds / seconds)
        return int(share * self.fitting_documents)

    def cross_fitting(self, fitting: int) -> int:
        """How many of the fitting documents may judge quick steps too."""
        words = CROSS_FITTING_SHARE * self.seconds * self.reading[""]
        count = min(fitting, int(words / max(self.words_judging, 1.0)))
        return count if self.judged_by_documents and count >= FEWEST_JUDGING else 0

    def measuring(self, candidate: Candidate, choosing: int, fitting: int) -> float:
        """Seconds that it takes to measure a candidate."""
        words = choosing * self.words_choosing
        seconds = 0.0
        if reads_maps(candidate):
            seconds = MAPS_SECONDS
            words += self.fitting_words * fitting / self.fitting_documents
        elif candidate.steps:
            words += self.whitening_words
        return seconds + words / self.reading[candidate.start]

    def trained_in(self, pairs: int) -> float:
        """Seconds that a training takes."""
        return STARTING + pairs / self.training

    def judging(self, judging: int) -> float:
        """Seconds for the verdict, the general pairs and what comes after."""
        words = JUDGED_MODELS * judging * self.words_judging + 2 * self.general_words
        return words / self.slowest + SAVING

    def more_judging(self, judging: int, seconds: float) -> int:
        """The number of judging documents, or labels, if there are so many seconds more."""
        words = max(0.0, seconds) * self.slowest / JUDGED_MODELS
        more = int(words / max(self.words_judging, 1.0))
        return min(self.most_judging, judging + more)

    @property
    def slowest(self) -> float:
        """Words that the slowest start reads in a second."""
        return min(self.reading.values())


@dataclass(frozen=True)
class Teaching:
    """The further teachers that there is time for, and what they cost."""

    teachers: dict[str, float] = field(default_factory=dict)  # name -> seconds that it reads
    left_out: dict[str, str] = field(default_factory=dict)  # name -> why


def reads_maps(candidate: Candidate) -> bool:
    """Whether maps are learned for a candidate."""
    return any(step in MAPS for step in candidate.steps)


def make_plan(workload: Workload, teaching: Teaching) -> Plan:
    """The plan that fits into the time.

    The model as it is always comes first. Trainings get what is left after the other candidates,
    and what the verdict needs.
    """
    choosing, judging = workload.choosing_and_judging()
    fitting = workload.fitting()
    cross_fitting = workload.cross_fitting(fitting)
    seconds = {f"teacher {name}": reading for name, reading in teaching.teachers.items()}
    for candidate in workload.untrained:
        seconds[candidate.name] = workload.measuring(candidate, choosing, fitting)
    if cross_fitting:
        words = cross_fitting * workload.words_judging
        seconds[KEEP] += CROSS_FITTING_SECONDS + words / workload.reading[""]
    seconds["judging"] = workload.judging(judging)

    left = SAFETY * (workload.seconds - sum(seconds.values()))
    trained = Candidate(name="trained", steps=("whitening",))
    measuring = workload.measuring(trained, choosing, fitting)
    measuring *= workload.reading[""] / workload.slowest
    short, long = plan_trainings(left, workload, measuring)
    if not short:  # time that no training can use judges
        judging = workload.more_judging(judging, left)
        seconds["judging"] = workload.judging(judging)
    for number, pairs in enumerate(short, start=1):
        seconds[f"training {number}"] = workload.trained_in(pairs) + measuring
    for number, pairs in enumerate(long, start=1):
        longer = f"longer training {number}"
        seconds[longer] = measuring  # of the average
        if pairs > short[0]:
            seconds[longer] += workload.trained_in(pairs) + measuring
    return Plan(
        choosing=choosing,
        judging=judging,
        fitting=fitting,
        cross_fitting=cross_fitting,
        teachers=tuple(teaching.teachers),
        candidates=tuple(workload.untrained),
        short_trainings=short,
        long_trainings=long,
        left_out=teaching.left_out,
        seconds={name: round(value, 1) for name, value in seconds.items()},
    )


def plan_trainings(
    seconds: float, workload: Workload, measuring: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The pairs of the short trainings, and those of the longer ones.

    Each recipe gets the same short time first; if the time is short, the last recipes are left out.
    Then the better half is trained longer: of three, the best gets three times what the third gets.
    A single training gets all of the time.
    """

    def affordable(share_of_time: float, measurements: int) -> int:
        free = share_of_time - STARTING - measurements * measuring
        pairs = min(int(free * workload.training), workload.most_pairs)
        return max(0, pairs // BATCH * BATCH)

    for count in range(workload.recipes, 1, -1):
        pairs = affordable(SHORT_SHARE * seconds / count, measurements=1)
        if pairs >= FEWEST_PAIRS:
            break
    else:
        pairs = affordable(seconds, measurements=2)
        enough = workload.recipes > 0 and pairs >= FEWEST_PAIRS_OF_ONE
        return ((pairs,), (pairs,)) if enough else ((), ())

    left = seconds - count * (workload.trained_in(pairs) + measuring)
    better_half = (count + 1) // 2
    long = []
    for weight in range(better_half, 0, -1):
        longer = affordable(left * weight / sum(range(better_half + 1)), measurements=2)
        # A training that would hardly be longer is not repeated: the short one is averaged.
        long.append(longer if longer > 1.2 * pairs else pairs)
    return (pairs,) * count, tuple(long)


def minutes_for_trainings(workload: Workload, plan: Plan) -> int:
    """About how many minutes a race with all kinds of training needs."""
    trainings = workload.recipes * workload.trained_in(FEWEST_PAIRS)
    without_trainings = sum(value for name, value in plan.seconds.items() if "training" not in name)
    seconds = trainings / (SAFETY * SHORT_SHARE) + without_trainings
    return max(1, round(seconds / 60))


def read_plan(source: str | Path | Mapping[str, Any] | Plan) -> Plan:
    """The plan of an earlier improvement, from its folder or its record."""
    if isinstance(source, Plan):
        return source
    if isinstance(source, str | Path):
        remedy = "name the folder of a finished improvement"
        source = read_record(Path(source) / "result.json", ["plan"], remedy)["plan"]
    try:
        return Plan.model_validate(source)
    except ValidationError as error:
        first = error.errors()[0]
        number = ".".join(map(str, first["loc"]))
        raise UserError(
            f"the plan cannot be read: {number}: {first['msg']}",
            "name the folder of an improvement that this version of isotrope has made",
            "unreadable-plan",
        ) from None


def check_plan(
    plan: Plan,
    trainers: Mapping[str, CandidateTrainer],
    teachers: Mapping[str, str],
) -> None:
    """Check that this race has all teachers, models and trainings of a plan."""
    missing = [f"teacher {name} (--teacher)" for name in plan.teachers if name not in teachers]
    for candidate in plan.candidates:
        if candidate.start not in trainers:
            missing.append(f"model {candidate.start} (--other-model)")
        elif candidate.recipe and candidate.recipe not in trainers[candidate.start].recipes:
            missing.append(
                f"training {candidate.recipe}, which these documents and this model do not have"
            )
    if missing:
        raise UserError(
            f"the plan has the {missing[0]}",
            "repeat it with all models and documents that it was made with",
            "plan-does-not-fit",
        )
