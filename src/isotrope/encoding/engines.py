"""Who encodes the shards: this process, or workers of Ray. The files are the same."""

import logging
import os
import pickle
import socket
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from isotrope.encoder import load
from isotrope.encoding.model import encoder_checksum
from isotrope.encoding.shards import Report, ShardTask, WrittenPart
from isotrope.errors import UserError
from isotrope.types import Encoder

# Numbers of shards -> their parts, as they are done.
Engine = Callable[[Sequence[int], Report], Generator[WrittenPart, None, None]]
_PATIENCE = 5.0  # seconds, for a cluster's answer


def encode_here(
    task: ShardTask, encoder: Encoder, shards: Sequence[int], report: Report
) -> Generator[WrittenPart, None, None]:
    """Encode the shards in this process."""
    for shard in shards:
        yield task.encode(encoder, shard, report)


@dataclass(frozen=True)
class WorkerModel:
    """What a worker needs to load the model that this process has."""

    name: str
    options: tuple[tuple[str, Any], ...]  # of `isotrope.load`
    checksum: str
    threads: int  # of the processor, for each worker

    def load(self) -> Encoder:
        """The model; UserError if it is not the one with this checksum."""
        torch.set_num_threads(self.threads)
        encoder: Encoder = load(self.name, **dict(self.options), frozen=True)
        if encoder_checksum(encoder) != self.checksum:
            problem = f"a worker has another model in {self.name}"
            raise UserError(problem, "give every machine the same files", "another-model")
        return encoder


_load_once = cache(WorkerModel.load)


def encode_by_ray(
    task: ShardTask,
    model: WorkerModel,
    workers: int,
    address: str | None,
    shards: Sequence[int],
    report: Report,
) -> Generator[WrittenPart, None, None]:
    """Encode the shards in actors of Ray Data, on this machine or on a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        _start_ray(address, workers * model.threads + 1)
    try:
        yield from _run_actors(task, model, workers, shards)
    except ray.exceptions.ActorDiedError as error:
        remedy = "is the memory full? use fewer --workers, or a smaller --batch-size"
        raise UserError(f"a worker died ({error})", remedy, "worker-died") from error
    finally:
        if is_ours:
            ray.shutdown()


def _start_ray(address: str | None, cores: int) -> None:
    """Connect to a cluster, or start Ray on this machine."""
    import ray

    options: dict[str, Any] = {"address": "local", "include_dashboard": False, "num_cpus": cores}
    if address:
        options = {"address": address}
    try:
        _check_answer(address or "")
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError, OverflowError) as error:
        problem = f"no cluster answers at {address}" if address else "Ray does not start"
        remedy = "see what `ray status` says"
        raise UserError(f"{problem} ({error})", remedy, "no-cluster") from error


def _check_answer(address: str) -> None:
    """OSError if nothing answers at HOST:PORT. Ray itself would wait for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), _PATIENCE).close()


def _run_actors(
    task: ShardTask, model: WorkerModel, workers: int, shards: Sequence[int]
) -> Generator[WrittenPart, None, None]:
    import ray
    import ray.data

    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = False
    settings.print_on_execution_start = False

    items = ray.data.from_items(
        [{"shard": shard} for shard in shards], override_num_blocks=len(shards)
    )
    options: dict[str, Any] = {
        "batch_size": 1,
        "compute": ray.data.ActorPoolStrategy(size=min(workers, len(shards))),
        "fn_constructor_args": (task, model),
        "num_cpus": model.threads,
        "num_gpus": _gpus(model),
    }
    for row in items.map_batches(_Actor, **options).iter_rows():
        if row["error"]:
            raise pickle.loads(row["error"])
        yield WrittenPart(int(row["shard"]), int(row["rows"]), row["checksum"])


def _gpus(model: WorkerModel) -> int:
    """GPUs for each worker."""
    import ray

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if resources.get("GPU") and dict(model.options).get("device") != "cpu":
        return 1
    return 0


class _Actor:
    """A worker of Ray. It returns its errors, because Ray would wrap them in its own."""

    def __init__(self, task: ShardTask, model: WorkerModel) -> None:
        self._task = task
        self._model = model

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Encode the shard that a batch of one row names, and write its file. The row that comes
        back tells its rows and checksum, or the error.
        """
        shard = int(batch["shard"][0])
        try:
            part = self._task.encode(_load_once(self._model), shard)
        except Exception as error:
            return {
                "shard": [shard],
                "rows": [0],
                "checksum": [""],
                "error": [portable_error(error)],
            }
        return {"shard": [shard], "rows": [part.rows], "checksum": [part.checksum], "error": [b""]}


def portable_error(error: Exception) -> bytes:
    """An error, pickled, as another process can raise it. What is not the user's mistake gets the
    worker's traceback as a note.
    """
    report = "".join(traceback.format_exception(error))
    if not isinstance(error, UserError):
        error.add_note(f"In a worker:\n{report}")
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # not every error can be sent
        return pickle.dumps(RuntimeError(report))
    return data
