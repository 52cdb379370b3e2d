"""Who encodes: a shard is a task that reads its own rows and writes its own file, in this process
or in another.
"""

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.errors import UserError
from isotrope.store.files import new_file
from isotrope.store.remote import is_url, remote_files, upload
from isotrope.types import Encoder

ATTEMPTS = 3  # at a shard, before a worker's death counts as the shard's fault
EMBEDDING = "embedding"
Report = Callable[[int], None]  # is told how many rows of a shard are done
# shards -> the rows of each, as it is done
Engine = Callable[[Sequence[int], Report], Iterator[int]]
_PATIENCE = 5.0  # seconds, for a cluster's answer
_KILLED = (
    f"workers were killed {ATTEMPTS} times",
    "is the memory full? use fewer --workers, or a smaller --batch-size",
)


@dataclass(frozen=True)
class ShardTask:
    """What every shard needs."""

    rows: str  # the file or URL of `isotrope.encoding.rows.write_rows`
    target: str  # the folder or URL of the parts
    dimension: int
    batch_size: int  # sentences of a forward pass, at most

    def encode(self, encoder: Encoder, shard: int, report: Report = lambda done: None) -> int:
        """Write the part of a shard -> its rows."""
        rows = remote_files(self.rows)[0].open() if is_url(self.rows) else self.rows
        with pq.ParquetFile(rows) as file:
            start = sum(file.metadata.row_group(number).num_rows for number in range(shard))
            table = file.read_row_group(shard)
        texts = table.column(0).to_pylist()

        def passed(count: int) -> None:
            if count < len(texts):  # the last ones are done when the part is written
                report(count)

        vectors = vectors_of(
            encoder, texts, batch_size=self.batch_size, first_row=start, progress=passed
        )
        if (width := vectors.shape[1]) != self.dimension:
            raise UserError(
                f"encode() gave {width} dimensions after {self.dimension}",
                "return vectors of one width",
            )
        flat = pa.array(vectors.reshape(-1), pa.float32())
        table = table.append_column(
            EMBEDDING, pa.FixedSizeListArray.from_arrays(flat, self.dimension)
        )
        away = is_url(self.target)
        with (
            tempfile.TemporaryDirectory(prefix="isotrope-")
            if away
            else nullcontext(self.target) as folder
        ):
            part = Path(folder, part_name(shard))
            with new_file(part) as file:
                pq.write_table(table, file, row_group_size=len(table), use_dictionary=["text"])
            if away:
                upload(part, f"{self.target}/{part.name}")
        return len(table)


def part_name(shard: int) -> str:
    """The file of a shard."""
    return f"part-{shard:05d}.parquet"


def first_vector(encoder: Encoder) -> Vectors:
    """One vector (1, D), which shows the dimension."""
    return vectors_of(
        encoder,
        ["A first sentence shows the dimension of the vectors."],
        progress=lambda done: None,
    )


def encoder_checksum(encoder: Encoder, first: Vectors | None = None) -> str:
    """Of a model all that decides its vectors but its prompts; of an unknown encoder its class and
    `first_vector`.
    """
    if isinstance(encoder, SentenceTransformer):
        plain = copy(encoder)
        plain.prompts, plain.default_prompt_name = {}, None
        return model_checksum(plain)
    vector = first_vector(encoder) if first is None else first
    return xxhash.xxh3_128_hexdigest(
        shown_name(encoder).encode() + vector.astype(np.float16).tobytes()
    )


def shown_name(model: str | Path | Encoder) -> str:
    """What a model is called: its name, or the class of an encoder."""
    return (
        str(model)
        if isinstance(model, str | Path)
        else f"{type(model).__module__}.{type(model).__qualname__}"
    )


@dataclass(frozen=True)
class WorkerModel:
    """What a worker needs to load the model that this process has."""

    name: str
    options: tuple[tuple[str, Any], ...]  # of `isotrope.load`
    checksum: str  # a worker that finds another model refuses
    threads: int  # of the processor, a worker

    def load(self) -> Encoder:
        """The model."""
        torch.set_num_threads(self.threads)
        encoder: Encoder = load(self.name, **dict(self.options), frozen=True)
        if encoder_checksum(encoder) != self.checksum:
            raise UserError(
                f"a worker found another model in {self.name}", "give every machine the same files"
            )
        return encoder


def by_itself(
    task: ShardTask, encoder: Encoder, shards: Sequence[int], report: Report
) -> Iterator[int]:
    """Encode the shards here -> the rows of each as it is done."""
    for shard in shards:
        yield task.encode(encoder, shard, report)


def by_processes(
    task: ShardTask, model: WorkerModel, workers: int, shards: Sequence[int], report: Report
) -> Iterator[int]:
    """Encode the shards in processes of this machine.

    If a worker is killed, the pool is started again for the shards that are not done.
    """
    left, deaths, context = list(shards), 0, multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    while left:
        pool = ProcessPoolExecutor(
            min(workers, len(left)), context, initializer=_end_with_the_driver
        )
        try:
            waiting = {pool.submit(_in_process, task, model, shard): shard for shard in left}
            for future in as_completed(waiting):
                rows = future.result()
                left.remove(waiting[future])
                deaths = 0
                yield rows
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == ATTEMPTS:
                raise UserError(*_KILLED) from error
        finally:
            for child in multiprocessing.active_children() if left else ():
                if child not in others:
                    child.kill()  # at once, whatever it does
            pool.shutdown(cancel_futures=True)


def _end_with_the_driver() -> None:
    """A worker's life ends with its driver's. Ctrl-C is the driver's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()
    assert driver is not None
    threading.Thread(target=lambda: (driver.join(), os._exit(1)), daemon=True).start()  # type: ignore[func-returns-value]


_loaded = cache(WorkerModel.load)


def _in_process(task: ShardTask, model: WorkerModel, shard: int) -> int:
    try:
        return task.encode(_loaded(model), shard)
    except UserError:
        raise
    except Exception as error:  # not every error can be sent to another process
        raise RuntimeError("".join(traceback.format_exception(error))) from None


def by_ray(
    task: ShardTask,
    model: WorkerModel,
    workers: int,
    shards: Sequence[int],
    report: Report,
    *,
    address: str | None,
) -> Iterator[int]:
    """Encode the shards in actors of Ray Data, here or on a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    import ray
    import ray.data

    if started := not ray.is_initialized():
        here: dict[str, Any] = {
            "address": "local",
            "include_dashboard": False,
            "num_cpus": workers * model.threads + 1,
        }
        host, _, port = (address or "").removeprefix("ray://").rpartition(":")
        try:
            if port.isdecimal():
                # Ray itself would wait for a minute
                socket.create_connection((host, int(port)), _PATIENCE).close()
            ray.init(
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({"address": address} if address else here),
            )
        except (OSError, ValueError, RuntimeError, OverflowError) as error:
            problem = f"no cluster answers at {address}" if address else "Ray does not start"
            raise UserError(f"{problem} ({error})", "see what `ray status` says") from error
    try:
        settings = ray.data.DataContext.get_current()
        settings.enable_progress_bars, settings.print_on_execution_start = False, False
        resources: Any = ray.cluster_resources()  # type: ignore[no-untyped-call]
        gpus = 1 if resources.get("GPU") and dict(model.options).get("device") != "cpu" else 0
        items = ray.data.from_items(
            [{"shard": shard} for shard in shards], override_num_blocks=len(shards)
        )
        actors = ray.data.ActorPoolStrategy(size=min(workers, len(shards)))
        made: Any = {
            "fn_constructor_args": (task, model),
            "num_cpus": model.threads,
            "num_gpus": gpus,
        }
        for row in items.map_batches(_Actor, batch_size=1, compute=actors, **made).iter_rows():
            if row["problem"]:
                raise UserError(row["problem"], row["remedy"])
            yield int(row["rows"])
    except ray.exceptions.ActorDiedError as error:
        raise UserError(*_KILLED) from error
    finally:
        if started:
            ray.shutdown()


class _Actor:
    """A worker of Ray. It returns what the user can mend, since Ray wraps errors in its own."""

    def __init__(self, task: ShardTask, model: WorkerModel) -> None:
        self._task, self._model = task, model

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        try:
            rows = _in_process(self._task, self._model, int(batch["shard"][0]))
            return {"rows": [rows], "problem": [""], "remedy": [""]}
        except UserError as error:
            return {"rows": [0], "problem": [error.problem], "remedy": [error.remedy]}
