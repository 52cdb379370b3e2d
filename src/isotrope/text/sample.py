"""Which rows of a corpus a run visits, in which order, and in which batches.

The seed decides it once.
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import BatchSampler

from isotrope.errors import UserError
from isotrope.text.corpus import Texts
from isotrope.text.permutation import Permutation, RowIds, derive

_SAMPLE = -1  # the stream of the sample; epochs are the streams 0, 1, …
_ROUNDS = -(1 << 32)  # below it, the streams of the rounds behind the first
# rows whose places are computed together: fast, and in constant memory
_ROWS_AT_ONCE = 1 << 16


class RowOrder:
    """A random sample of ``count`` of ``n`` rows, and its order in each epoch.

    It is computed, not stored. The sample is the first places of a permutation that is fixed by the
    seed; each epoch permutes within it. If there are ``rounds``, an epoch permutes within each, one
    after the other, and a sample takes whole rounds first, then a random sample of the next one.
    UserError for a ``count`` of none, or of more rows than there are.
    """

    def __init__(self, n: int, count: int | None, seed: int, rounds: Sequence[int] = ()) -> None:
        if count is not None and not 1 <= count <= n:
            raise UserError(
                f"a sample of {count} sentences from a corpus of {n}",
                f"choose 1 to {n}, or take all",
                "sample-too-large",
            )
        self.size = n if count is None else count
        self._rounds = list[_Round]()
        begin = 0
        for number, size in enumerate(rounds or (n,)):
            if begin >= self.size:
                break
            round_seed = derive(seed, _ROUNDS - number) if number else seed
            sample = None
            if count is not None:
                sample = Permutation(size, derive(round_seed, _SAMPLE))
            sampled_size = min(size, self.size - begin)
            self._rounds.append(_Round(begin, sampled_size, round_seed, sample))
            begin += size
        # rows of the sample in each round
        self.rounds = tuple(round_.size for round_ in self._rounds)

    def rows(self, begin: int, end: int, epoch: int = 0) -> RowIds:
        """Row ids (end - begin,) at these places of an epoch."""
        rows = [np.zeros(0, np.int64)]
        for round_ in self._rounds:
            # Only the last round may be sampled, so each begins in the epoch as in the corpus.
            first = max(begin - round_.begin, 0)
            last = min(end - round_.begin, round_.size)
            if first < last:
                places = np.arange(first, last)
                rows.append(round_.rows(places, epoch))
        return np.concatenate(rows)


class _Round(NamedTuple):
    begin: int  # its first row in the corpus
    size: int  # rows that the sample takes
    seed: int
    sample: Permutation | None  # of all its rows; the sample is the first places. None: all

    def rows(self, places: RowIds, epoch: int) -> RowIds:
        """The row ids at these places of the round."""
        epoch_seed = derive(self.seed, epoch)
        rows = Permutation(self.size, epoch_seed)[places]
        if self.sample is not None:
            rows = self.sample[rows]
        return self.begin + rows


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
        corpus = self.corpus
        return RowOrder(len(corpus), self.count, self.seed, corpus.rounds)

    @cached_property
    def rows(self) -> RowIds | None:
        """Their ids (R,), rising; None if they are all rows of the corpus."""
        if len(self) == len(self.corpus):
            return None
        return np.sort(self.order.rows(0, len(self)))

    def rows_within(self, epochs: float, step_size: int) -> RowIds | None:
        """The ids (R,) of the rows that a run of ``epochs`` reads, rising; None: all rows.

        A part of an epoch reads the first rows of its order, ``step_size`` in each step. The result
        may hold some more.
        """
        steps = ceil(epochs * ceil(len(self) / step_size)) + 1  # the trainer may count one more
        count = steps * step_size
        if epochs >= 1 or count >= self.order.rounds[0]:
            return self.rows
        return np.sort(self.order.rows(0, count))

    def texts(self, limit: int | None = None) -> list[str]:
        """The first ``limit`` sentences that the first epoch visits; None: all.

        They are those of the corpus's first column.
        """
        count = len(self)
        if limit is not None:
            count = min(limit, count)
        rows = self.order.rows(0, count)
        return self.corpus.texts(rows)


class PermutedBatches(BatchSampler):
    """Lists of row ids, in the order that `RowOrder` gives for each epoch.

    Batch i of an epoch is a pure function of (seed, epoch, i). So resuming needs no state but the
    epoch, which the trainer sets through `set_epoch`, and the number of batches to skip. The
    batches of all processes together never take rows of two rounds. What does not fill a batch on
    every process is left out, another part in each epoch.

    Sentence-transformers' trainer takes it as `batch_sampler`, with what follows the seed bound by
    `functools.partial`. A lambda will not do, since the trainer pickles its arguments into every
    checkpoint.

    Args:
        dataset: the corpus, or whatever has as many rows.
        batch_size: rows of a batch of one process.
        limit: rows in the sample; None takes all.
        world_size: processes, whose batches follow one another; accelerate deals them out.
        rounds: rows of each round; none: all rows are one round.

    UserError for an impossible limit, or a sample that does not fill one batch on every process.
    """

    drop_last = True

    def __init__(
        self,
        dataset: Sized,
        batch_size: int,
        seed: int,
        *,
        limit: int | None = None,
        world_size: int = 1,
        rounds: Sequence[int] = (),
        **_: Any,  # what else the trainer gives
    ) -> None:
        self._order = RowOrder(len(dataset), limit, seed, rounds)
        self._step_size = batch_size * world_size  # rows of a step of all processes
        largest = max(self._order.rounds)
        if largest < self._step_size:
            each = f" on each of {world_size} processes" if world_size > 1 else ""
            unit = "documents that give a pair" if rounds else "sentences to train on"
            limit = largest // world_size
            raise UserError(
                f"a batch of {batch_size}{each} is larger than the {largest} {unit}",
                f"set train.batch_size to {limit} or less" if limit > 1 else "give more text",
                "batch-too-large",
            )
        self.batch_size = batch_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of an epoch, over all processes."""
        rows_used = sum(map(self._used, self._order.rounds))
        return rows_used // self.batch_size

    def _used(self, size: int) -> int:
        """The rows of a round of this size that fill whole steps."""
        return size - size % self._step_size

    def __iter__(self) -> Iterator[list[int]]:
        batches_at_once = max(1, _ROWS_AT_ONCE // self.batch_size)
        rows_at_once = batches_at_once * self.batch_size
        first = 0
        for size in self._order.rounds:
            end = first + self._used(size)
            for begin in range(first, end, rows_at_once):
                stop = min(begin + rows_at_once, end)
                rows = self._order.rows(begin, stop, self.epoch)
                yield from rows.reshape(-1, self.batch_size).tolist()
            first += size
