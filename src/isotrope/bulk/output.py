"""Where bulk encoding writes: in shards, each whole or not counted, so that a killed call goes on after the last."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from filelock import FileLock, Timeout

from isotrope.errors import UserError
from isotrope.store.disk import FULL

DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR}
MANIFEST, LOCK = "manifest.json", ".lock"

Vectors = npt.NDArray[np.float32]


@dataclass(slots=True)
class Manifest:
    """What a folder of shards is made from, and how much of it is whole: shards beyond ``done`` rows do not count."""

    rows: int
    dimension: int
    model: str
    made_from: dict[str, Any]  # what decides the contents; see `key`
    done: int = 0  # rows
    shards: int = 0

    @property
    def key(self) -> str:
        """Checksum of what it is made from: equal keys mean equal vectors, to rounding."""
        return xxhash.xxh3_128_hexdigest(json.dumps(self.made_from, sort_keys=True).encode())

    def save(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` at one stroke."""
        draft = folder / f".{MANIFEST}"
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"key": self.key, **asdict(self)}, file, indent=2)
            _sync(file)
        draft.replace(folder / MANIFEST)

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of ``folder``, if it has one. UserError where it is not one of ours."""
        path = folder / MANIFEST
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            key = stored.pop("key")
            manifest = cls(**stored)
            if key != manifest.key:
                raise ValueError("its key does not fit")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is damaged or not ours ({error})", "delete it or name another output") from error
        return manifest

    def check(self, folder: Path, made_from: dict[str, Any]) -> None:
        """Raise UserError, with the difference, unless it is made from the same."""
        for name, value in made_from.items():
            if (begun := self.made_from.get(name)) == value:
                continue
            problem = {
                "model": f"another model than this one (it was {self.model})",
                "files": "other files, or the files have changed since",
            }.get(name, f"{name} = {begun!r}, not {value!r}")
            raise UserError(
                f"{folder} was begun with {problem}", f"give the same arguments again, or delete {folder} to begin anew"
            )


class Parts:
    """Parquet parts, one a shard, in ``folder``; with ``whole``, one Parquet file of them all in the end."""

    def __init__(self, folder: Path, whole: Path | None = None) -> None:
        self.folder, self.whole = folder, whole

    def append(self, manifest: Manifest, texts: list[str], vectors: Vectors) -> None:
        """Write texts (n,) and vectors (n, D) as the next part."""
        flat = pa.array(vectors.reshape(-1))
        table = pa.table(
            {
                "text": pa.array(texts, pa.string()),
                "embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            }
        )
        draft = self.folder / ".part"
        with draft.open("wb") as file:
            pq.write_table(table, file, row_group_size=len(table), use_dictionary=["text"])
            _sync(file)
        draft.replace(self._part(manifest.shards))

    def holds(self, manifest: Manifest) -> bool:
        """Whether all shards are there that the manifest counts, or were until they had become the whole file."""
        if self.whole and manifest.done == manifest.rows and not self._part(0).exists():
            return self.whole.exists()
        try:
            rows = [pq.read_metadata(self._part(i)).num_rows for i in range(manifest.shards)]
            return bool(manifest.done == sum(rows))
        except (OSError, pa.ArrowException):
            return False

    def finish(self, manifest: Manifest) -> Path:
        """The finished output."""
        if self.whole is None:
            return self.folder
        if self._part(0).exists():  # not so where a kill came while the parts were removed
            self._assemble(manifest, self.whole)
        clear(self.folder)
        return self.whole

    def _assemble(self, manifest: Manifest, whole: Path) -> None:
        draft = self.folder / ".whole"
        with draft.open("wb") as file:
            with pq.ParquetWriter(file, pq.read_schema(self._part(0)), use_dictionary=["text"]) as writer:
                for shard in range(manifest.shards):
                    table = pq.read_table(self._part(shard))
                    writer.write_table(table, row_group_size=len(table))
            _sync(file)
        draft.replace(whole)

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.parquet"


class Npy:
    """One float32 array (N, D) in the .npy format, grown by appending and renamed when whole.

    Appended and not mapped: writing through a memory map to a full disk ends the process with SIGBUS.
    """

    def __init__(self, folder: Path, whole: Path) -> None:
        self.folder, self.whole, self._draft = folder, whole, folder / "vectors.npy"

    def append(self, manifest: Manifest, texts: list[str], vectors: Vectors) -> None:
        """Write vectors (n, D) after the rows that the manifest counts, over what a kill left there."""
        head, start = _npy_head(manifest), _npy_size(manifest)
        with self._draft.open("r+b" if manifest.done else "wb") as file:
            if not manifest.done:
                _check_space(self.folder, 4 * manifest.rows * manifest.dimension)
                file.write(head)
            file.seek(start)
            file.truncate()
            file.write(np.ascontiguousarray(vectors, "<f4").data)
            _sync(file)

    def holds(self, manifest: Manifest) -> bool:
        """Whether all rows are there that the manifest counts; once moved to its place the array is whole."""
        if manifest.done == manifest.rows and not self._draft.exists():
            return self.whole.exists()
        return not manifest.done or (self._draft.exists() and self._draft.stat().st_size >= _npy_size(manifest))

    def finish(self, manifest: Manifest) -> Path:
        """The finished output."""
        if self._draft.exists():  # not so where a kill came between the next two lines
            self._draft.replace(self.whole)
        clear(self.folder)
        return self.whole


def _npy_head(manifest: Manifest) -> bytes:
    head = io.BytesIO()
    shape = (manifest.rows, manifest.dimension)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return head.getvalue()


def _npy_size(manifest: Manifest) -> int:
    return len(_npy_head(manifest)) + 4 * manifest.done * manifest.dimension


def _check_space(folder: Path, need: int) -> None:
    if (free := shutil.disk_usage(folder).free) < need:
        problem = f"{folder.parent} has {free / 1e9:.1f} GB free and the vectors need {need / 1e9:.1f} GB"
        raise UserError(problem, "free some or write elsewhere")


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def destination(output: str | Path) -> Parts | Npy:
    """What ``output`` names: OUT.npy, OUT.parquet (both worked on in OUT.npy.parts/, …) or a folder.

    Raises:
        UserError: another ending, a folder where a file is to be or the reverse, no folder to write into.
    """
    if not str(output):
        raise UserError("output is empty", "name a .npy or .parquet file, or a folder")
    path = Path(output)
    files = {".npy", ".parquet"}
    is_folder = str(output).endswith("/") or (path.is_dir() and path.suffix not in files)
    kind = "" if is_folder else path.suffix
    if kind not in {"", *files}:
        remedy = "end it in .npy or .parquet, or name a folder (with / at its end where its name has a dot)"
        raise UserError(f"output {path} has the unknown ending {kind!r}", remedy)
    if kind and path.is_dir():
        raise UserError(f"output {path} is a folder", "name a file, or put / at the end to write into the folder")
    if not kind and path.exists() and not path.is_dir():
        raise UserError(f"output {path} is a file", "end it in .npy or .parquet, or name a folder")
    if not path.absolute().parent.is_dir():
        raise UserError(
            f"the folder {path.absolute().parent} of the output does not exist", "make it, or check the path"
        )
    work = path.with_name(path.name + ".parts")
    return Parts(path) if not kind else Npy(work, path) if kind == ".npy" else Parts(work, path)


@contextmanager
def writing(store: Parts | Npy) -> Iterator[None]:
    """Hold the store's folder for this process alone; without a whole shard in the end, leave no trace.

    Raises:
        UserError: it holds other files, another process writes there, it cannot be written to, the disk is full.
    """
    folder = store.folder
    stays = store.whole is None and folder.exists()  # an empty folder that the user made
    try:
        folder.mkdir(exist_ok=True)
        if not (folder / MANIFEST).exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise UserError(f"the folder {folder} holds other files", "name a new or an empty folder")
        with FileLock(folder / LOCK).acquire(timeout=0):
            try:
                yield
            finally:
                _tidy(folder, stays)
    except Timeout as error:
        raise UserError(f"another process is writing to {folder}", "wait for it, or name another output") from error
    except OSError as error:
        if error.errno in FULL:
            remedy = "free some, then give the same arguments again to go on"
            raise UserError(f"no space left to write {folder}", remedy) from error
        if error.errno in DENIED and not os.access(folder, os.W_OK):
            problem = f"{folder} cannot be written to ({error.strerror or error})"
            raise UserError(problem, "name another output") from error
        raise


def _tidy(folder: Path, stays: bool) -> None:
    """Remove what does not count; without a whole shard all of it, and the folder unless it stays."""
    with suppress(OSError, UserError):
        for entry in (".part", ".whole", f".{MANIFEST}", LOCK):
            (folder / entry).unlink(missing_ok=True)
        manifest = Manifest.read(folder)
        if manifest is None or not manifest.done:
            clear(folder)
            if not stays:
                folder.rmdir()


def clear(folder: Path) -> None:
    """Remove the shards, the first one first, then the manifest, and no file of another kind."""
    for path in (folder / "vectors.npy", *sorted(folder.glob("part-?????.parquet")), folder / MANIFEST):
        path.unlink(missing_ok=True)
