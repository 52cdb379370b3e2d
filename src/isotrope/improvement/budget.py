"""The time that a race has, what is known of its speed, and how much it may measure and train in
that time.

The budget counts work in pairs and words. It does not know what a candidate is.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from isotrope.errors import UserError
from isotrope.store.files import read_record, write_json

NOTES = "race.json"
BATCH = 64
# of each of several trainings; of the only one that there is time for
FEWEST_PAIRS, FEWEST_OF_ONE = 1024, 256
FIRST_SHARE = 0.4  # of the time: the short trainings
SAFETY = 0.85  # of the time that a training is planned for: one that is not done at the end is lost
# of the time, at most: a training before any other has shown how fast this machine trains
UNSURE = 0.6
STARTING = 8.0  # seconds that a training takes before its first step
STEP_COST = 4  # a training step costs about as much as encoding its texts so many times
PAIR_WORDS = 32  # of two crops
GOOD_QUERIES, FEWEST_QUERIES = 200, 50  # of a task
Amount: TypeAlias = tuple[int, float]  # so many items of so many words each
_NOTED = ("left_out", "trained", "plans", "teachers", "asked")  # each by names
# Of the time, for one measurement; texts a dimension for the post steps; queries. The first
# possible line is taken.
_LEVELS = (
    (1 / 30, 2.0, GOOD_QUERIES),
    (1 / 20, 1.25, GOOD_QUERIES),
    (1 / 10, 1.25, FEWEST_QUERIES),
    (1 / 5, 1.25, FEWEST_QUERIES),  # hardly any time for trainings
    (1 / 5, 0.0, FEWEST_QUERIES),  # no post steps either
)


def check_minutes(minutes: float, problem: str = "") -> None:
    """Refuse a time that is none, or any time if there is a problem."""
    if problem or not 0 < minutes < 1e5:
        remedy = "leave it out" if problem else "choose a number above 0"
        raise UserError(f"minutes = {minutes} is not possible{problem}", remedy)


@dataclass(frozen=True, slots=True)
class Size:
    """What every candidate is measured on."""

    queries: int  # the most of any task
    fitted_on: int  # texts for the post steps; 0: there are none
    folds: bool = False  # the documents that post steps are fitted on judge too

    def told(self, queries: int, fitted_on: int) -> list[str]:
        """A line for each thing of which there would be more."""
        lines = []
        if self.queries < queries:
            lines.append(
                f"to save time, a task has {self.queries:,} queries at most, not {queries:,}"
            )
        if self.fitted_on < fitted_on:
            fewer = (
                f"are fitted on {self.fitted_on:,} texts, not {fitted_on:,}"
                if self.fitted_on
                else "are left out"
            )
            lines.append(f"to save time, post steps {fewer}")
        return lines


def measurement_size(
    words: float, fitted: Amount, tasks: Sequence[Amount], dimensions: int
) -> Size | None:
    """The largest measurement that leaves time for the rest; None: even the smallest takes too
    long.

    ``words`` could be read in the whole time of the race. Texts for the post steps (``fitted``)
    become fewer first, since they do not judge; a step needs more of them than the vectors have
    ``dimensions``. ``tasks`` are the queries of each task, with the words of a query and of its
    part of the other texts.
    """
    most, (texts, text_words) = max(count for count, _ in tasks), fitted

    def asked(queries: int) -> float:
        return sum(min(queries, count) * of_one for count, of_one in tasks)

    for share, a_dimension, few in _LEVELS:
        allowed, fewest = share * words, min(few, most)
        least = min(texts, round(a_dimension * dimensions))
        if asked(fewest) + least * text_words > allowed:
            continue
        free = int((allowed - asked(most)) / max(text_words, 1))
        fit = max(least, min(free, texts)) if a_dimension else 0
        enough = (
            queries
            for queries in range(most, fewest, -1)
            if asked(queries) + fit * text_words <= allowed
        )
        return Size(next(enough, fewest), fit)
    return None


class Clock(NamedTuple):
    """The present time in seconds, and what rings when some are over; Windows has no such timer."""

    now: Callable[[], float]
    timer: int | None
    signal: int | None


class Budget:
    """The time of a race, ``seconds``, and what is kept of it in its folder, so that the same
    command goes on.

    A race that repeats a plan has infinite time. A damaged file counts as missing.
    """

    # a race beside other work may count the processor's time
    clock = Clock(
        time.monotonic, getattr(signal, "ITIMER_REAL", None), getattr(signal, "SIGALRM", None)
    )

    def __init__(self, folder: Path, seconds: float) -> None:
        self._path, self.seconds = folder / NOTES, seconds
        # as the file holds it: what an earlier call, stopped or killed, has used and done
        self.kept: dict[str, Any] = {"spent": 0.0, "questions": 0} | {kind: {} for kind in _NOTED}
        with suppress(UserError):
            self.kept |= read_record(self._path)
        self._began = self.clock.now() - self.kept["spent"]
        # seconds for what comes after the race: the choice, the model, the report
        self.kept_back = 0.0
        self.rang = False  # the time of the race is over

    def keep(self, **more: Any) -> None:
        """Write what is known by now, and the time that was used."""
        self.kept |= {**more, "spent": self.spent}
        write_json(self._path, self.kept)

    @property
    def spent(self) -> float:
        """Seconds so far, those of an earlier call too."""
        return float(self.clock.now() - self._began)

    @property
    def left(self) -> float:
        """Seconds that are left for the race; negative: over."""
        return self.seconds - self.kept_back - self.spent

    @property
    def told(self) -> str:
        """The time that is left, behind a comma; "" without a clock."""
        return (
            "" if self.seconds == float("inf") else f", {max(0.0, self.left) / 60:.0f} min are left"
        )

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Raise KeyboardInterrupt within, as Ctrl-C does, when the time is over; `rang` says that
        it was the clock.

        Only in the main thread, and not on Windows: elsewhere Python hears no such signal.
        """
        if self.left <= 0:
            self._ring()
        _, timer, rings = self.clock
        if (
            threading.current_thread() is not threading.main_thread()
            or timer is None
            or rings is None
        ):
            yield
            return
        before = signal.signal(rings, self._ring)
        signal.setitimer(timer, min(self.left, threading.TIMEOUT_MAX))
        try:
            yield
        finally:
            signal.setitimer(timer, 0)
            signal.signal(rings, before)

    def _ring(self, *_: object) -> None:
        self.rang = True
        raise KeyboardInterrupt

    @property
    def speed(self) -> float:
        """Words that the model as it is reads in a second."""
        return float(self.kept["speed"])

    @property
    def measuring(self) -> float:
        """Seconds that it takes to measure one encoder."""
        return float(self.kept["measuring"])

    @property
    def pairs_a_second(self) -> float:
        """As the trainings so far were; before the first one, estimated from the speed of encoding."""
        if trained := self.kept["trained"].values():
            return float(sum(of["pairs"] for of in trained) / sum(of["seconds"] for of in trained))
        return self.speed / (PAIR_WORDS * STEP_COST)

    def pairs_in(
        self, stage: str, names: Sequence[str], share: float, measurements: int, most: int
    ) -> dict[str, int]:
        """Training -> how many pairs it gets in this stage. If the time is short, the last ones are
        left out.

        The only one that is left may be as short as there is time for: a short training is better
        than none. The stage has a ``share`` of the time that is left, a training needs so many
        ``measurements`` and has at most so many pairs. What was planned for a stage once is kept.
        """
        plans = self.kept["plans"]
        if stage not in plans:
            plans[stage] = {}
            share = share if self.kept["trained"] else min(share, UNSURE)
            for count in range(len(names), 0, -1):
                free, after = self.left - self.measuring, measurements * self.measuring
                if count == 1:  # nothing else has to fit into its share
                    free, after = self.left - after, 0
                seconds = SAFETY * share * free / count - after - STARTING
                pairs = min(int(self.pairs_a_second * seconds), most)
                if pairs >= (FEWEST_PAIRS if count > 1 else FEWEST_OF_ONE):
                    plans[stage] = dict.fromkeys(names[:count], pairs // BATCH * BATCH)
                    break
            self.keep()
        return dict(plans[stage])

    def needed(self, trainings: int, words: int) -> str:
        """How much time a race with so many trainings needs; ``words`` are read for a measurement."""
        measuring = self.kept.get("measuring") or words / self.speed
        training = STARTING + FEWEST_PAIRS / self.pairs_a_second + measuring
        seconds = trainings * training / (SAFETY * FIRST_SHARE) + 2 * measuring + self.kept_back
        return f"trainings of this model need about {max(1, round(seconds / 60))} minutes on this machine"
