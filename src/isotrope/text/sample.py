"""Which rows of a corpus a run visits, in which order, and in which batches: decided once, by the seed."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.utils.data import BatchSampler

from isotrope.errors import UserError
from isotrope.text.corpus import Texts
from isotrope.text.permutation import Permutation, RowIds, derive

_SAMPLE = -1  # the stream of the sample; epochs are the streams 0, 1, …
_ROUNDS = -(1 << 32)  # below it, the streams of the rounds behind the first
_AT_ONCE = 1 << 16  # rows whose places are computed together: fast, and in constant memory


class RowOrder:
    """A random sample of ``count`` of ``n`` rows, and its order in each epoch. Computed, not stored.

    The sample is the first places of a permutation that is fixed by the seed; each epoch permutes within it.

    If the rows come in rounds (see `isotrope.text.corpus.Texts`), an epoch takes round after round, and permutes
    within each. A sample takes whole rounds first, then a random sample of the next one.

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
    """The rows of a corpus that a run visits."""

    corpus: Texts
    count: int | None  # None: all
    seed: int  # the run's

    def __len__(self) -> int:
        return self.order.size

    @cached_property
    def order(self) -> RowOrder:
        """Their order in each epoch."""
        return RowOrder(len(self.corpus), self.count, self.seed, self.corpus.rounds)

    @cached_property
    def rows(self) -> RowIds | None:
        """Their ids (R,), rising; None if they are all rows of the corpus."""
        return None if len(self) == len(self.corpus) else np.sort(self.order.rows(0, len(self)))

    def texts(self, limit: int | None = None) -> list[str]:
        """The first ``limit`` sentences (the corpus's first column) that the first epoch visits; all by default."""
        return self.corpus.texts(self.order.rows(0, len(self) if limit is None else min(limit, len(self))))


class PermutedBatches(BatchSampler):
    """Lists of row ids, in the order that `RowOrder` gives for each epoch.

    Batch i of an epoch is a pure function of (seed, epoch, i). So resuming needs no state but the epoch, which the
    trainer sets through `set_epoch`, and the number of batches to skip.

    No batch takes rows of two rounds, which each hold one pair of a document. With `drop_last` that also holds for all
    processes together. What a round leaves over is dropped; it is another part in each round and epoch.

    Sentence-transformers' trainer takes it as `batch_sampler`, with `limit`, `world_size` and `rounds` bound by
    `functools.partial`. A lambda will not do, since the trainer pickles its arguments into every checkpoint.

    Args:
        dataset: the corpus, or whatever has as many rows.
        batch_size: rows of a batch of one process.
        limit: rows in the sample; None takes all.
        drop_last: leave out rows that do not fill a batch on every process; without it the last batch is shorter.
        world_size: processes, whose batches follow one another; accelerate deals them out.
        rounds: rows of each round; none: all rows are one round.

    Raises:
        UserError: an impossible limit, or a sample that does not fill one batch on every process.
    """

    def __init__(
        self,
        dataset: Sized,
        batch_size: int,
        seed: int,
        *,
        limit: int | None = None,
        drop_last: bool = True,
        world_size: int = 1,
        rounds: Sequence[int] = (),
        valid_label_columns: list[str] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self._order = RowOrder(len(dataset), limit, seed, rounds)
        self._together = batch_size * world_size  # rows of a step of all processes
        if (largest := max(self._order.rounds)) < self._together:
            each = f"{batch_size}" if world_size == 1 else f"{batch_size} on each of {world_size} processes"
            rows = "documents that give a pair" if rounds else "sentences to train on"
            problem, most = f"a batch of {each} is larger than the {largest} {rows}", largest // world_size
            raise UserError(problem, f"set train.batch_size to {most} or less" if most > 1 else "give more text")
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of an epoch, over all processes."""
        return sum(-(-self._taken(size) // self.batch_size) for size in self._order.rounds)

    def _taken(self, size: int) -> int:
        """How many rows of a round make batches."""
        return size - size % self._together if self.drop_last else size

    def __iter__(self) -> Iterator[list[int]]:
        step, first = max(1, _AT_ONCE // self.batch_size) * self.batch_size, 0
        for size in self._order.rounds:
            end = first + self._taken(size)
            for begin in range(first, end, step):
                rows = self._order.rows(begin, min(begin + step, end), self.epoch).tolist()
                for at in range(0, len(rows), self.batch_size):
                    yield rows[at : at + self.batch_size]
            first += size
