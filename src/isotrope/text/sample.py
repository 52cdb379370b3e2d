"""Which rows of a corpus a run visits, and in which order: decided once, by the seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.text.corpus import Corpus
from isotrope.text.permutation import Permutation, derive

_SAMPLE = -1  # the stream of the sample; epochs are the streams 0, 1, …

RowIds = npt.NDArray[np.int64]


class RowOrder:
    """A random sample of ``count`` of ``n`` rows, and its order in each epoch. Computed, not stored.

    The sample is the first places of a permutation that is fixed by the seed; each epoch permutes within it.

    Args:
        n: rows of the corpus.
        count: rows of the sample; None takes all.
        seed: the run's seed.

    Raises:
        UserError: a sample of no row, or of more rows than there are.
    """

    def __init__(self, n: int, count: int | None, seed: int) -> None:
        if count is not None and not 1 <= count <= n:
            raise UserError(f"a sample of {count} sentences from a corpus of {n}", f"choose 1 to {n}, or take all")
        self.size = n if count is None else count
        self.seed = seed
        self._sample = None if count is None else Permutation(n, derive(seed, _SAMPLE))

    def rows(self, begin: int, end: int, epoch: int = 0) -> RowIds:
        """Row ids (end - begin,) at these places of an epoch."""
        places = Permutation(self.size, derive(self.seed, epoch))[np.arange(begin, end)]
        return places if self._sample is None else self._sample[places]


@dataclass(frozen=True)
class Sample:
    """The rows of a corpus that a run visits.

    Attributes:
        corpus: where they are from.
        count: how many; None: all.
        seed: the run's seed.
    """

    corpus: Corpus
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
        return RowOrder(len(self.corpus), self.count, self.seed)

    @cached_property
    def rows(self) -> RowIds | None:
        """Their ids (R,), rising; None where they are all rows of the corpus."""
        return None if self.order.size == len(self.corpus) else np.sort(self.order.rows(0, self.order.size))

    def texts(self, limit: int | None = None) -> list[str]:
        """The first ``limit`` sentences (the corpus's first column) that the first epoch visits; all by default."""
        size = self.order.size
        rows = self.order.rows(0, size if limit is None else min(limit, size))
        return list(self.corpus.dataset[rows.tolist()][self.corpus.columns[0]])
