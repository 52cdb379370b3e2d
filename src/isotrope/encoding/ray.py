"""The engine ``ray``: one actor a worker, on this machine or on a cluster. Needs the extra ``ray``.

Plain actors, not Ray Data: its blocks would decide which texts share a batch, and so the last bits of the vectors.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from isotrope.encoding.engines import Encoded, Shard, WorkerModel
from isotrope.encoding.processes import portable
from isotrope.errors import UserError

_PATIENCE = 5.0  # seconds; Ray itself would wait for more than a minute


def check_cluster(address: str) -> None:
    """Ask whether anything listens at ``host:port`` or ``ray://host:port``. Other words, such as auto, are Ray's.

    Raises:
        UserError: nothing does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no cluster answers at {address} ({error})", "check the address: ray status") from error


class Actors:
    """See `isotrope.encoding.engines.Workers`.

    Args:
        model: what each actor loads.
        jobs: how many actors there will be.
        address: of a cluster; None: Ray is started on this machine, unless the caller has started it.

    Raises:
        UserError: there is no cluster at the address.
    """

    def __init__(self, model: WorkerModel, jobs: int, address: str | None) -> None:
        if address:
            check_cluster(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent
        import ray

        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        options: dict[str, Any] = {"address": address} if address else {"address": "local", "include_dashboard": False}
        if address is None:
            options["num_cpus"] = jobs * model.threads
        if self._ours:
            try:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
            except (OSError, ValueError, RuntimeError) as error:
                where = f" with the cluster at {address}" if address else ""
                raise UserError(f"Ray does not start{where} ({error})", "see what `ray status` says") from error
        gpus = 1 if self._ray.cluster_resources().get("GPU") and model.options.get("device") != "cpu" else 0
        self._class = ray.remote(num_cpus=model.threads, num_gpus=gpus, max_restarts=0)(_Actor)
        self._model = ray.put(model)
        self._running: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}  # the result to come -> its worker

    def submit(self, worker: int, shard: Shard) -> None:
        """Give a shard to a worker that has none."""
        if worker not in self._running:
            self._running[worker] = self._class.remote(self._model)
        self._waiting[self._running[worker].encoded.remote(shard.start, shard.sentences)] = worker

    def finished(self) -> list[tuple[int, Encoded | None]]:
        """Wait for a worker. What it made, or None where it has died."""
        ready, _ = self._ray.wait(list(self._waiting), num_returns=1)
        found: list[tuple[int, Encoded | None]] = []
        for result in ready:
            worker = self._waiting.pop(result)
            try:
                found.append((worker, self._ray.get(result)))
            except self._ray.exceptions.RayError:
                self._ray.kill(self._running.pop(worker))
                found.append((worker, None))
        return found

    def close(self) -> None:
        """End all actors; end Ray too, if it was started here."""
        for actor in self._running.values():
            self._ray.kill(actor)
        self._running.clear()
        self._waiting.clear()
        if self._ours:
            self._ray.shutdown()


class _Actor:
    """A worker. The model is loaded with the first shard, so that what is wrong with it is told in words."""

    def __init__(self, model: WorkerModel) -> None:
        self._model, self._encode = model, None

    def encoded(self, start: int, sentences: list[str]) -> Encoded:
        try:
            self._encode = self._encode or self._model.loaded()  # type: ignore[assignment]
            return portable(self._encode(Shard(start, sentences)))  # type: ignore[misc]
        except Exception as error:
            return portable(error)
