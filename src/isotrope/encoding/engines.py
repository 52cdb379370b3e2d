"""Engines of bulk encoding: who turns shards into vectors. The output is the same for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from isotrope.console.threads import usable_cores
from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.errors import UserError, one_of
from isotrope.types import Encoder

ENGINES = ("one", "processes", "ray")
ATTEMPTS = 3  # at a shard, before a worker's death counts as the shard's fault


class Shard(NamedTuple):
    """Consecutive rows of the input."""

    start: int  # row of the first sentence
    sentences: list[str]


Encoded = Vectors | Exception
Engine = Callable[[Iterator[Shard]], Iterator[tuple[Shard, Vectors]]]


class Workers(Protocol):
    """Workers with a model each, numbered from 0. One that has died is replaced when it gets a shard again."""

    def submit(self, worker: int, shard: Shard) -> None:
        """Give a shard to a worker that has none."""

    def finished(self) -> list[tuple[int, Encoded | None]]:
        """Wait for a worker. What it made, or None where it has died."""

    def close(self) -> None:
        """End all workers at once, whatever they do."""


@dataclass(frozen=True)
class WorkerModel:
    """What a worker needs to encode as one process does.

    Args:
        name: of the model, as `isotrope.load` takes it.
        options: of `isotrope.load`.
        checksum: of the model; a worker that finds another one refuses.
        batch_size: sentences of a forward pass, at most.
        threads: of the processor, a worker.
    """

    name: str
    options: dict[str, Any]
    checksum: str
    batch_size: int
    threads: int

    def loaded(self) -> Callable[[Shard], Encoded]:
        """A function that encodes a shard. It returns what goes wrong, so that errors keep the order of the shards.

        Raises:
            UserError: the model is not there, or is another one.
        """
        import torch

        torch.set_num_threads(self.threads)
        encoder = load(self.name, **self.options, frozen=True)
        if model_checksum(encoder) != self.checksum:
            raise UserError(f"a worker found another model in {self.name}", "give every machine the same files")

        def encoded(shard: Shard) -> Encoded:
            try:
                return vectors_of(
                    encoder,
                    shard.sentences,
                    batch_size=self.batch_size,
                    first_row=shard.start,
                    progress=lambda done: None,
                )
            except Exception as error:
                return error

        return encoded


def check_engine(engine: str, jobs: int | None, address: str | None, model: object) -> int:
    """The number of workers; by default one a usable core, and 1 for ``one``.

    Raises:
        UserError: options that do not fit together, a model without a name, Ray is not installed.
    """
    if engine not in ENGINES:
        raise UserError(f"engine = {engine!r} is unknown", one_of(engine, ENGINES))
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise UserError(f"jobs = {jobs!r} is impossible", "choose a whole number from 1")
    if address is not None and engine != "ray":
        raise UserError(f"address = {address!r} needs the engine ray", "add --engine ray, or leave the address out")
    if engine == "one":
        if jobs not in (None, 1):
            raise UserError(f"jobs = {jobs} needs several processes", "add --engine processes or --engine ray")
        return 1
    if not isinstance(model, str):
        raise UserError(f"the engine {engine} needs the name of a model", "give its folder, or leave the engine out")
    if engine == "ray" and find_spec("ray") is None:
        raise UserError("the engine ray needs Ray, which is not installed", "pip install 'isotrope[ray]'")
    return jobs or usable_cores()


def one_process(
    encoder: Encoder, batch_size: int, report: Callable[[int], None], shards: Iterator[Shard]
) -> Iterator[tuple[Shard, Vectors]]:
    """The shards in their order, encoded here. ``report`` is called with the rows done, after each forward pass."""
    for shard in shards:
        start, size = shard.start, len(shard.sentences)

        def encoded(count: int, start: int = start, size: int = size) -> None:
            if 0 < count < size:  # the last ones are done when the shard is written
                report(start + count)

        yield shard, vectors_of(encoder, shard.sentences, batch_size=batch_size, first_row=start, progress=encoded)


def shards_in_order(workers: Workers, jobs: int, shards: Iterator[Shard]) -> Iterator[tuple[Shard, Vectors]]:
    """Vectors of the shards, in their order, with at most ``jobs + 1`` shards in memory. A dead worker's is done again.

    Raises:
        UserError: `ATTEMPTS` workers have died with one shard.
        Exception: what a worker raised, once all shards before it are handed out.
    """
    busy: dict[int, Shard] = {}
    made: dict[int, tuple[Shard, Encoded]] = {}  # by first row
    order: list[int] = []  # first rows of the shards in memory
    deaths: dict[int, int] = {}
    try:
        while True:
            while len(busy) < jobs and len(order) <= jobs and (shard := next(shards, None)):
                worker = min(set(range(jobs)) - busy.keys())
                busy[worker] = shard
                order.append(shard.start)
                workers.submit(worker, shard)
            if not order:
                return
            for worker, encoded in workers.finished():
                shard = busy.pop(worker)
                if encoded is not None:
                    made[shard.start] = shard, encoded
                    continue
                deaths[shard.start] = deaths.get(shard.start, 0) + 1
                if deaths[shard.start] == ATTEMPTS:
                    last = shard.start + len(shard.sentences) - 1
                    problem = f"{ATTEMPTS} workers were killed at rows {shard.start} to {last}"
                    raise UserError(problem, "is the memory full? use fewer --jobs, or a smaller --batch-size")
                busy[worker] = shard
                workers.submit(worker, shard)
            while order and order[0] in made:
                shard, encoded = made.pop(order[0])
                if isinstance(encoded, Exception):
                    raise encoded
                yield shard, encoded
                order.pop(0)
    finally:
        workers.close()
