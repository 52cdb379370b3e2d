"""Which rows of a corpus a run visits, and in which order: decided once, by the seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.text.corpus import Texts
from isotrope.text.permutation import Permutation, derive

_SAMPLE = -1  # the stream of the sample; epochs are the streams 0, 1, …
_ROUNDS = -(1 << 32)  # below it, the streams of the rounds behind the first

RowIds = npt.NDArray[np.int64]


class RowOrder:
    """A random sample of ``count`` of ``n`` rows, and its order in each epoch. Computed, not stored.

    The sample is the first places of a permutation that is fixed by the seed; each epoch permutes within it.

    Where the rows come in rounds (see `isotrope.text.corpus.Texts`), an epoch takes round after round, and permutes
    within each. A sample takes whole rounds first, then a random sample of the next one.

    Args:
        n: rows of the corpus.
        count: rows of the sample; None takes all.
        seed: the run's seed.
        rounds: rows of each round; none: all rows are one round.

    Raises:
        UserError: a sample of no row, or of more rows than there are.
    """

    def __init__(self, n: int, count: int | None, seed: int, rounds: Sequence[int] = ()) -> None:
        if count is not None and not 1 <= count <= n:
            raise UserError(f"a sample of {count} sentences from a corpus of {n}", f"choose 1 to {n}, or take all")
        self.size = n if count is None else count
        self._parts, begin, left = list[_Round](), 0, self.size
        for number, size in enumerate(rounds or (n,)):
            own = seed if number == 0 else derive(seed, _ROUNDS - number)
            if left > 0:
                drawn = None if count is None else Permutation(size, derive(own, _SAMPLE))
                self._parts.append(_Round(begin, min(size, left), own, drawn))
            begin, left = begin + size, left - size
        self.rounds = tuple(part.size for part in self._parts)  # rows of the sample in each round

    def rows(self, begin: int, end: int, epoch: int = 0) -> RowIds:
        """Row ids (end - begin,) at these places of an epoch."""
        found, first = [np.zeros(0, np.int64)], 0
        for part in self._parts:
            places = np.arange(max(begin - first, 0), min(end - first, part.size))
            found += [part.rows(places, epoch)] if len(places) else []
            first += part.size
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Round:
    begin: int  # its first row in the corpus
    size: int  # rows that the sample takes
    seed: int
    sample: Permutation | None  # of all its rows; the sample is the first places. None: all

    def rows(self, places: RowIds, epoch: int) -> RowIds:
        permuted = Permutation(self.size, derive(self.seed, epoch))[places]
        return self.begin + (permuted if self.sample is None else self.sample[permuted])


@dataclass(frozen=True)
class Sample:
    """The rows of a corpus that a run visits.

    Attributes:
        corpus: where they are from.
        count: how many; None: all.
        seed: the run's seed.
    """

    corpus: Texts
    count: int | None
    seed: int

    def __len__(self) -> int:
        return self.order.size

    @cached_property
    def order(self) -> RowOrder:
        """Their order in each epoch.

        Raises:
            UserError: more rows than the corpus has.
        """
        return RowOrder(len(self.corpus), self.count, self.seed, self.corpus.rounds)

    @cached_property
    def rows(self) -> RowIds | None:
        """Their ids (R,), rising; None where they are all rows of the corpus."""
        return None if self.order.size == len(self.corpus) else np.sort(self.order.rows(0, self.order.size))

    def texts(self, limit: int | None = None) -> list[str]:
        """The first ``limit`` sentences (the corpus's first column) that the first epoch visits; all by default."""
        size = self.order.size
        rows = self.order.rows(0, size if limit is None else min(limit, size))
        return list(self.corpus.dataset[rows.tolist()][self.corpus.columns[0]])
