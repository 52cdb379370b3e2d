"""Batches of row ids for sentence-transformers' trainer, in a computed order."""

from collections.abc import Iterator, Sequence, Sized

import torch
from torch.utils.data import BatchSampler

from isotrope.errors import UserError
from isotrope.text.sample import RowIds, RowOrder

_AT_ONCE = 1 << 16  # rows whose places are computed together: fast, and in constant memory


class PermutedBatches(BatchSampler):
    """Lists of row ids, in the order that `RowOrder` gives for each epoch.

    Batch i of an epoch is a pure function of (seed, epoch, i). So resuming needs no state but the epoch, which the
    trainer sets through `set_epoch`, and the number of batches to skip.

    Where the rows come in rounds, no batch takes rows of two rounds: a round holds one pair of each document, so no
    batch holds two pairs of one document. With `drop_last` that also holds for all processes together. What a round
    leaves over is dropped; it is another part in each round and epoch.

    Args:
        n: number of rows of the corpus.
        batch_size: rows of a batch of one process.
        seed: the run's seed.
        limit: rows in the sample; None takes all.
        drop_last: leave out rows that do not fill a batch on every process; without it the last batch is shorter.
        world_size: number of processes. The sampler yields the batches of all of them in turn; accelerate deals them
            out, so with `drop_last` every process gets equally many.
        rounds: rows of each round; none: all rows are one round.

    Raises:
        UserError: an impossible batch size or limit, or a sample that does not fill one batch on every process.
    """

    def __init__(
        self,
        n: int,
        batch_size: int,
        seed: int,
        *,
        limit: int | None = None,
        drop_last: bool = True,
        world_size: int = 1,
        rounds: Sequence[int] = (),
    ) -> None:
        if batch_size < 1:
            raise UserError(f"batch size {batch_size} is impossible", "choose at least 1")
        self._order = RowOrder(n, limit, seed, rounds)
        self.size = self._order.size
        if (largest := max(self._order.rounds)) < batch_size * world_size:
            each = f"{batch_size}" if world_size == 1 else f"{batch_size} on each of {world_size} processes"
            rows = "documents that give a pair" if rounds else "sentences to train on"
            problem = f"a batch of {each} is larger than the {largest} {rows}"
            most = largest // world_size
            power = 1 << max(1, most.bit_length() - 2)  # several batches an epoch
            remedy = f"choose at most {most}, for example --set train.batch_size={power}"
            raise UserError(problem, remedy if most > 1 else "give more text")
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.epoch = 0
        self._world_size = world_size

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of an epoch, over all processes."""
        return sum(-(-taken // self.batch_size) for taken in self._taken())

    def _taken(self) -> list[int]:
        """How many rows of each round make batches."""
        all_processes = self.batch_size * self._world_size
        return [size - size % all_processes if self.drop_last else size for size in self._order.rounds]

    def rows(self, begin: int, end: int) -> RowIds:
        """Row ids (end - begin,) at these places of the present epoch."""
        return self._order.rows(begin, end, self.epoch)

    def __iter__(self) -> Iterator[list[int]]:
        step, first = max(1, _AT_ONCE // self.batch_size) * self.batch_size, 0
        for size, taken in zip(self._order.rounds, self._taken(), strict=True):
            end = first + taken
            for begin in range(first, end, step):
                rows = self.rows(begin, min(end, begin + step)).tolist()
                for at in range(0, len(rows), self.batch_size):
                    yield rows[at : at + self.batch_size]
            first += size


def trainer_batches(
    dataset: Sized,
    *,
    batch_size: int,
    drop_last: bool,
    seed: int,
    limit: int | None = None,
    world_size: int = 1,
    rounds: Sequence[int] = (),
    valid_label_columns: list[str] | None = None,
    generator: torch.Generator | None = None,
) -> PermutedBatches:
    """`PermutedBatches` as sentence-transformers' trainer asks for it (its last two arguments are not used).

    Give it to the training arguments as `batch_sampler`, with `limit`, `world_size` and `rounds` bound by
    `functools.partial`. A lambda will not do, since the trainer pickles its arguments into every checkpoint.
    """
    return PermutedBatches(
        len(dataset), batch_size, seed, limit=limit, drop_last=drop_last, world_size=world_size, rounds=rounds
    )
