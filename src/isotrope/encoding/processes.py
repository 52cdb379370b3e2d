"""The engine ``processes``: workers on this machine, each with a model and a pipe."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from isotrope.encoding.engines import Encoded, Shard, WorkerModel
from isotrope.errors import UserError

READY = "ready"  # the first message of a worker that has its model


class Processes:
    """See `isotrope.encoding.engines.Workers`. A process starts when it gets its first shard."""

    def __init__(self, model: WorkerModel) -> None:
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload([__name__])
        self._model = model
        self._running: dict[int, tuple[Any, Connection]] = {}
        self._pending: dict[int, Shard] = {}  # of workers that still load their model: a pipe would block

    def submit(self, worker: int, shard: Shard) -> None:
        """Give a shard to a worker that has none."""
        if worker in self._running:
            with suppress(OSError):  # it has died: `finished` tells
                self._running[worker][1].send(shard)
            return
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._model), daemon=True)
        process.start()
        theirs.close()  # so that the death of the worker ends the pipe
        self._running[worker], self._pending[worker] = (process, ours), shard

    def finished(self) -> list[tuple[int, Encoded | None]]:
        """Wait for a worker. What it made, or None where it has died."""
        found: list[tuple[int, Encoded | None]] = []
        owners = {connection: worker for worker, (_, connection) in self._running.items()}
        for connection in wait(list(owners)):
            worker = owners[connection]  # type: ignore[index]
            try:
                message = self._running[worker][1].recv()
                if isinstance(message, str):  # READY
                    self._running[worker][1].send(self._pending.pop(worker))
                    continue
            except (EOFError, OSError):
                message = None
                self._end(worker)
            found.append((worker, message))
        return found

    def close(self) -> None:
        """End all workers at once, whatever they do."""
        for worker in list(self._running):
            self._end(worker)

    def _end(self, worker: int) -> None:
        process, connection = self._running.pop(worker)
        self._pending.pop(worker, None)
        connection.close()
        process.kill()
        process.join()


def portable(encoded: Encoded) -> Encoded:
    """An error of a kind that every process can read: `UserError` as it is, others with their traceback as words."""
    if isinstance(encoded, Exception) and not isinstance(encoded, UserError):
        return RuntimeError("".join(traceback.format_exception(encoded)))
    return encoded


def _work(connection: Connection, model: WorkerModel) -> None:
    """A worker's life: it ends with its driver's pipe. Ctrl-C is the driver's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        try:
            encoded = model.loaded()
        except Exception as error:
            connection.send(portable(error))
            return
        connection.send(READY)
        while True:
            connection.send(portable(encoded(connection.recv())))
