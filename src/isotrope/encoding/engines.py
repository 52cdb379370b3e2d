"""Who encodes the shards: this process, or workers of Ray. The files are the same."""

import logging
import os
import pickle
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from isotrope.encoding.model import LoadOptions, encoder_checksum, open_model
from isotrope.encoding.shards import Report, ShardTask, WrittenPart
from isotrope.errors import UserError
from isotrope.types import Encoder


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
    options: LoadOptions
    checksum: str
    threads: int  # of the processor, for each worker

    def load(self) -> Encoder:
        """The model; UserError if it is not the one with this checksum."""
        torch.set_num_threads(self.threads)
        encoder = open_model(self.name, self.options)
        if encoder_checksum(encoder) != self.checksum:
            problem = f"a worker has another model in {self.name}"
            raise UserError(problem, "give every machine the same files", "another-model")
        return encoder


_load_once = cache(WorkerModel.load)


def encode_by_ray(
    task: ShardTask, model: WorkerModel, workers: int, shards: Sequence[int]
) -> Generator[WrittenPart, None, None]:
    """Encode the shards in actors of Ray Data, on this machine or on the cluster of RAY_ADDRESS."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        _start_ray(workers * model.threads + 1)
    try:
        yield from _run_actors(task, model, workers, shards)
    except ray.exceptions.ActorDiedError as error:
        remedy = "is the memory full? use fewer --workers, or a smaller --batch-size"
        raise UserError(f"a worker died ({error})", remedy, "worker-died") from error
    finally:
        if is_ours:
            ray.shutdown()


def _start_ray(cores: int) -> None:
    """Connect to a cluster, or start Ray on this machine."""
    import ray

    options: dict[str, Any] = {}
    if "RAY_ADDRESS" not in os.environ:
        options = {"address": "local", "include_dashboard": False, "num_cpus": cores}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError) as error:
        remedy = "see what `ray status` says, and check RAY_ADDRESS"
        raise UserError(f"Ray does not start ({error})", remedy, "no-cluster") from error


def _run_actors(
    task: ShardTask, model: WorkerModel, workers: int, shards: Sequence[int]
) -> Generator[WrittenPart, None, None]:
    import ray
    import ray.data

    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = False
    settings.print_on_execution_start = False

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    items = ray.data.from_items(
        [{"shard": shard} for shard in shards], override_num_blocks=len(shards)
    )
    options: dict[str, Any] = {
        "batch_size": 1,
        "compute": ray.data.ActorPoolStrategy(size=min(workers, len(shards))),
        "fn_constructor_args": (task, model),
        "num_cpus": model.threads,
        "num_gpus": 1 if resources.get("GPU") else 0,
    }
    for row in items.map_batches(_Actor, **options).iter_rows():
        result = pickle.loads(row["result"])
        if isinstance(result, Exception):
            raise result
        yield result


class _Actor:
    """A worker of Ray."""

    def __init__(self, task: ShardTask, model: WorkerModel) -> None:
        self._task = task
        self._model = model

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        """Encode the shard that a batch of one row names, and write its file.

        The row that comes back is the `WrittenPart`. It may be an error of the user's, which Ray
        would wrap in its own.
        """
        result: WrittenPart | Exception
        try:
            result = self._task.encode(_load_once(self._model), int(batch["shard"][0]))
        except (UserError, OSError) as error:
            result = error
        return {"result": [pickle.dumps(result)]}
