"""What `isotrope encode` wrote, read again: the vectors piece by piece, and the texts of a few rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.encoder.embed import Vectors
from isotrope.encoding.output import MANIFEST, METADATA, Manifest, Parts, beside
from isotrope.errors import UserError

_VECTORS = "embedding"  # their column
_GIVE = "give what isotrope encode wrote: OUT.npy, OUT.parquet or a folder"
_AGAIN = "encode the texts again"

Fields = Mapping[str, Any]  # of a row: its text and its kept columns, by their names


class Stored(Protocol):
    """Vectors (N, D) on disk.

    Attributes:
        path: what the user named.
        rows: N.
        dimension: D.
        manifest: what they are made from; None where the file does not say it.
    """

    path: Path
    rows: int
    dimension: int
    manifest: Manifest | None

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order, at most ``size`` rows at a time: (n, D) float32, for the caller to change."""

    def fields(self, rows: Iterable[int]) -> dict[int, Fields]:
        """What stands beside the vectors of these rows, by row."""


class StoredParquet:
    """OUT.parquet, or the parts of a folder. See `Stored`."""

    def __init__(self, path: Path, files: Sequence[Path], manifest: Manifest | None) -> None:
        self.path, self.manifest = path, manifest
        self._groups = list(_groups(files))
        self.rows = sum(group.rows for group in self._groups)
        with _reading(files[0]):
            schema = pq.read_schema(files[0])
        kind: Any = schema.field(_VECTORS).type if _VECTORS in schema.names else None
        if kind is None or not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
            raise UserError(f"{files[0]} has no column {_VECTORS!r} of float32 vectors", _GIVE)
        self.dimension = kind.list_size

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order."""
        for group in self._groups:
            with _reading(group.file), pq.ParquetFile(group.file) as file:
                for batch in file.iter_batches(size, row_groups=[group.number], columns=[_VECTORS]):
                    yield np.array(batch[_VECTORS].flatten()).reshape(-1, self.dimension)  # (n, D)

    def fields(self, rows: Iterable[int]) -> dict[int, Fields]:
        """Text and kept columns of these rows."""
        return _fields(self._groups, rows)


class StoredArray:
    """OUT.npy, with OUT.kept.parquet where there is one. See `Stored`."""

    manifest: Manifest | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path):
            array = np.lib.format.open_memmap(path, mode="r")
        if array.ndim != 2 or array.dtype != np.float32 or not array.size:
            problem = f"{path} holds {array.dtype} numbers of shape {array.shape}"
            raise UserError(f"{problem}, not one float32 vector a row", _GIVE)
        self.rows, self.dimension = array.shape
        kept = beside(path)
        self._groups = list(_groups([kept])) if kept.exists() else []
        if self._groups and (count := sum(group.rows for group in self._groups)) != self.rows:
            problem = f"{kept} has {count:,} rows, and {path} has {self.rows:,}"
            raise UserError(problem, f"{_AGAIN}, or move the first away")

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order."""
        for start in range(0, self.rows, size):
            with _reading(self.path):  # mapped anew: pages that were read count as memory until their map is gone
                piece = np.array(np.lib.format.open_memmap(self.path, mode="r")[start : start + size])
            yield piece  # (n, D)

    def fields(self, rows: Iterable[int]) -> dict[int, Fields]:
        """Kept columns of these rows."""
        return _fields(self._groups, rows) if self._groups else {row: {} for row in rows}


def open_stored(path: str | Path) -> Stored:
    """Open an output of `isotrope encode`. No vector is read yet.

    Raises:
        UserError: it is not there, not finished, damaged, or something else.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist", _GIVE)
    if path.is_dir():
        return _folder(path)
    if path.suffix == ".npy":
        return StoredArray(path)
    if path.suffix != ".parquet":
        raise UserError(f"{path} is no output of isotrope encode", _GIVE)
    with _reading(path):
        about = (pq.read_schema(path).metadata or {}).get(METADATA)
        manifest = None if about is None else Manifest.from_record(json.loads(about), path, _AGAIN)
    return StoredParquet(path, [path], manifest)


def _folder(path: Path) -> StoredParquet:
    manifest, parts = Manifest.read(path), Parts(path)
    if manifest is None:
        raise UserError(f"{path} has no {MANIFEST}", _GIVE)
    again = "give the command isotrope encode again"
    if manifest.done < manifest.rows or manifest.made_from.get("output") != "folder":
        raise UserError(f"{path} is not finished: {manifest.done:,} of {manifest.rows:,} rows are encoded", again)
    if not parts.holds(manifest):
        raise UserError(f"{path} lacks some of its shards", f"delete {path}, and {again}")
    return StoredParquet(path, parts.files(manifest), manifest)


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a Parquet file."""

    file: Path
    number: int
    start: int  # row of its first one, in all
    rows: int


def _groups(files: Sequence[Path]) -> Iterator[_Group]:
    start = 0
    for file in files:
        with _reading(file):
            metadata = pq.read_metadata(file)
        for number in range(metadata.num_row_groups):
            count = metadata.row_group(number).num_rows
            yield _Group(file, number, start, count)
            start += count


def _fields(groups: Sequence[_Group], rows: Iterable[int]) -> dict[int, Fields]:
    found: dict[int, Fields] = {}
    wanted = sorted(set(rows))
    for group in groups:
        here = [row for row in wanted if group.start <= row < group.start + group.rows]
        if not here:
            continue
        with _reading(group.file), pq.ParquetFile(group.file) as file:
            columns = [name for name in file.schema_arrow.names if name != _VECTORS]
            table = file.read_row_group(group.number, columns=columns)
            found |= zip(here, table.take([row - group.start for row in here]).to_pylist(), strict=True)
    return found


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what can go wrong in a file of ours into a UserError that names it."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, EOFError, KeyError, TypeError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read ({error})", _AGAIN) from error
