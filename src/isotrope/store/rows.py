"""Rows of numbers on disk, written in shards. After a kill, work goes on after the last whole shard."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isotrope.store.atomic import move


class GrowingArray:
    """A float32 array (R, D) in the .npy format that grows by appending; ``path`` is the unfinished file.

    Appended, not memory-mapped: writing through a memory map to a full disk ends the process with SIGBUS.
    The caller says how many rows count, or takes `rows_written`.
    """

    def __init__(self, path: Path, rows: int, dimension: int) -> None:
        self.path, self.rows, self.dimension = path, rows, dimension
        head = io.BytesIO()
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
        np.lib.format.write_array_header_1_0(head, shape)
        self._head = head.getvalue()

    def rows_written(self, shard: int) -> int:
        """How many rows lie in whole shards of ``shard`` rows."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        return min(self.rows, max(0, size - len(self._head)) // (4 * self.dimension) // shard * shard)

    def append(self, done: int, vectors: npt.NDArray[Any]) -> None:
        """Write vectors (n, D) after the first ``done`` rows. What a kill left there is overwritten."""
        with self.path.open("r+b" if done else "wb") as file:
            if not done:
                file.write(self._head)
            file.seek(len(self._head) + 4 * done * self.dimension)
            file.truncate()
            file.write(np.ascontiguousarray(vectors, "<f4").data)
            file.flush()
            os.fsync(file.fileno())

    def finish(self, target: Path) -> None:
        """Rename the finished file to ``target``."""
        move(self.path, target)
