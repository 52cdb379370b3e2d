"""How much a measurement may read, so that a race ends in time. Arithmetic alone: no clock and no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GOOD_QUERIES, FEWEST_QUERIES = 100, 50  # of a task
# Of the time, for one measurement; texts a dimension for the post steps; queries. The first possible line is taken.
_LEVELS = (
    (1 / 30, 2.0, GOOD_QUERIES),
    (1 / 20, 1.25, GOOD_QUERIES),
    (1 / 10, 1.25, FEWEST_QUERIES),
    (1 / 5, 1.25, FEWEST_QUERIES),  # hardly any time for trainings
    (1 / 5, 0.0, FEWEST_QUERIES),  # no post steps either
)


@dataclass(frozen=True, slots=True)
class Amount:
    """So many items of so many words each."""

    count: int
    words: float


@dataclass(frozen=True, slots=True)
class Size:
    """What every candidate is measured on.

    Attributes:
        queries: the most of any task.
        fitted_on: texts for the post steps; 0: there are none.
    """

    queries: int
    fitted_on: int

    def told(self, queries: int, fitted_on: int) -> list[str]:
        """A line for each thing of which there would be more."""
        lines = []
        if self.queries < queries:
            lines.append(f"to save time, a task has {self.queries:,} queries at most, not {queries:,}")
        if self.fitted_on < fitted_on:
            fewer = f"are fitted on {self.fitted_on:,} texts, not {fitted_on:,}" if self.fitted_on else "are left out"
            lines.append(f"to save time, post steps {fewer}")
        return lines


def measurement_size(
    seconds: float, speed: float, fitted: Amount, tasks: Sequence[Amount], dimensions: int
) -> Size | None:
    """The largest measurement that leaves time for the rest; None: even the smallest takes too long.

    Texts for the post steps become fewer first, since they do not judge.

    Args:
        seconds: the time of the race.
        speed: words that the model reads in a second.
        fitted: the texts for the post steps.
        tasks: queries of each task, with the words of a query and its part of the other texts.
        dimensions: of the vectors. A post step needs more texts than that.
    """
    most = max(task.count for task in tasks)

    def asked(queries: int) -> float:
        return sum(min(queries, task.count) * task.words for task in tasks)

    for share, texts, few in _LEVELS:
        allowed, fewest = share * seconds * speed, min(few, most)
        least = min(fitted.count, round(texts * dimensions))
        if asked(fewest) + least * fitted.words > allowed:
            continue
        free = int((allowed - asked(most)) / max(fitted.words, 1))
        fit = max(least, min(free, fitted.count)) if texts else 0
        enough = (queries for queries in range(most, fewest, -1) if asked(queries) + fit * fitted.words <= allowed)
        return Size(next(enough, fewest), fit)
    return None
