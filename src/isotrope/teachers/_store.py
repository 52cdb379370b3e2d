"""A teacher's embeddings of a corpus in one memory-mapped file: written once, shard by shard, and found again."""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from filelock import FileLock
from torch import Tensor

from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, prune
from isotrope.store.disk import writing
from isotrope.teachers._context import Context, Rows
from isotrope.teachers._frozen import Frozen
from isotrope.types import Batch

VERSION = 1  # of the layout below; part of the key
SHARD = 4096  # rows between two points from which a killed pass goes on


@dataclass(frozen=True, slots=True)
class Store:
    """The embeddings of a corpus, or of those of its rows that a run visits."""

    vectors: npt.NDArray[np.float32]  # (R, T) unit rows, mapped
    rows: Rows | None  # (R,) rising; None: row i is place i

    @classmethod
    def of(cls, frozen: Frozen, context: Context) -> Store:
        """Find the file in the cache, or encode the corpus into it; of several processes one does, the others wait.

        The file's name is a checksum of the model, its settings, the corpus and the rows, so it is never stale; it
        appears whole or not at all. What a killed pass had done counts in the next. Before a new one is written, those
        that no run has opened for 30 days are removed.

        Raises:
            UserError: no space or no right to write, a damaged file, a model that gives NaN.
        """
        rows = None if context.rows is None else np.unique(context.rows)  # rising, as searchsorted needs
        if rows is not None and len(rows) == len(context.corpus):
            rows = None
        chosen = "all" if rows is None else xxhash.xxh3_128_hexdigest(rows.tobytes())
        key = xxhash.xxh3_128_hexdigest(json.dumps([VERSION, frozen.key(), context.corpus.key, chosen]).encode())
        folder = cache_folder("teachers")
        path, shape = folder / f"{key}.npy", (len(context.corpus) if rows is None else len(rows), frozen.dim)
        if not path.is_file():
            with writing(folder), FileLock(folder / f".{key}.lock"):
                if not path.is_file():
                    prune(folder)
                    _write(path, shape, frozen, context, rows)
        with suppress(OSError):  # another user's cache
            os.utime(path)
        try:
            vectors = np.load(path, mmap_mode="r")
            if vectors.shape != shape:
                raise ValueError(f"shape {vectors.shape}")
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"the teacher's embeddings {path} are damaged ({error})", "delete that file") from error
        return cls(vectors, rows)

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) for the batch's rows, on their device."""
        wanted = batch.rows.cpu().numpy()  # (N,)
        places = wanted if self.rows is None else self.rows.searchsorted(wanted)
        inside = (places >= 0) & (places < len(self.vectors))
        if self.rows is not None:
            inside &= self.rows[np.where(inside, places, 0)] == wanted
        if not inside.all():
            problem = f"the teacher has no embedding of row {wanted[~inside][0]}"
            raise UserError(problem, "let 'label' hold row numbers, and open the teacher with all rows of the run")
        return torch.from_numpy(self.vectors[places]).to(batch.rows.device)


def _write(path: Path, shape: tuple[int, int], frozen: Frozen, context: Context, rows: Rows | None) -> None:
    """Append shards to PATH.part: its length says how much is done. Only the holder of the lock comes here."""
    head, width = _header(shape), 4 * shape[1]  # bytes
    part = path.with_suffix(".part")
    part.touch()
    with part.open("r+b") as file:
        size = part.stat().st_size
        done = max(0, size - len(head)) // (width * SHARD) * SHARD  # whole shards
        needed, free = len(head) + width * shape[0] - size, shutil.disk_usage(path.parent).free
        if needed > free:
            problem = f"the embeddings of the teacher {frozen.name} need {needed / 1e9:.1f} GB more in {path.parent}"
            raise UserError(f"{problem}, where {free / 1e9:.1f} GB are free", "free some, or use live = true")
        file.write(head)
        file.truncate(len(head) + width * done)
        file.seek(0, os.SEEK_END)
        for start in range(done, shape[0], SHARD):
            context.progress(frozen.name, start, shape[0])
            places = np.arange(start, min(start + SHARD, shape[0]))
            vectors = frozen(context.texts(places if rows is None else rows[places])).cpu().numpy()  # (≤ SHARD, T)
            if not np.isfinite(vectors).all():
                raise UserError(f"the teacher {frozen.name} gives NaN or infinity", "check its weights and precision")
            file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
        context.progress(frozen.name, shape[0], shape[0])
    part.replace(path)


def _header(shape: tuple[int, int]) -> bytes:
    """Of a .npy file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return head.getvalue()
