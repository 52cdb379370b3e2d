"""Where bulk encoding writes: in shards, each whole or not counted, so that a killed call goes on after the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from isotrope.encoder.embed import Vectors
from isotrope.encoding.kept import COLUMNS_FILE, Kept
from isotrope.errors import UserError
from isotrope.store.atomic import new_file, write_json
from isotrope.store.lock import hold
from isotrope.store.mark import remove
from isotrope.store.records import Record, read_record
from isotrope.store.rows import GrowingArray

MANIFEST = "manifest.json"
METADATA = b"isotrope"  # where OUT.parquet holds its manifest
OUTPUT_KIND = "folder of vectors"  # of the mark
_TYPES = {"rows": int, "dimension": int, "model": str, "made_from": dict, "done": int, "shards": int}


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

    @property
    def record(self) -> Record:
        """As it is stored."""
        return {"key": self.key, **asdict(self)}

    def save(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` at one stroke."""
        write_json(folder / MANIFEST, self.record)

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of ``folder``, if it has one.

        Raises:
            UserError: it is damaged.
        """
        path, remedy = folder / MANIFEST, f"delete {folder} to start again"
        if not path.exists():
            return None
        return cls.from_record(read_record(path, {"key": str, **_TYPES}, remedy), path, remedy)

    @classmethod
    def from_record(cls, record: Record, path: Path, remedy: str) -> Manifest:
        """The manifest of a `record`, which lies in ``path``.

        Raises:
            UserError: it is not as it was written.
        """
        manifest = cls(**{name: record[name] for name in _TYPES})
        if record["key"] != manifest.key:
            raise UserError(f"{path} is damaged: its key does not fit", remedy)
        return manifest

    def check(self, folder: str, made_from: dict[str, Any]) -> None:
        """Raise UserError, with the difference, unless it is made from the same."""
        for name, value in made_from.items():
            if (begun := self.made_from.get(name)) == value:
                continue
            problem = {
                "model": f"another model than this one (it was {self.model})",
                "files": "other files, or the files have changed since",
            }.get(name, f"{name} = {begun!r}, not {value!r}")
            raise UserError(
                f"{folder} was begun with {problem}",
                f"give the same arguments again, or delete {folder} to start again",
            )


class Parts:
    """Parquet parts, one a shard, in ``folder``; with ``whole``, one Parquet file of them all in the end."""

    def __init__(self, folder: Path, whole: Path | None = None) -> None:
        self.folder, self.whole, self.shown = folder, whole, str(folder)

    def append(self, manifest: Manifest, texts: list[str], vectors: Vectors, kept: Kept) -> None:
        """Write texts (n,), their kept columns and vectors (n, D) as the next part."""
        flat = pa.array(vectors.reshape(-1), pa.float32())
        embedding = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        columns = kept.columns(manifest.done, len(texts))
        table = pa.table({"text": pa.array(texts, pa.string()), **columns, "embedding": embedding})
        with new_file(self._part(manifest.shards)) as file:
            pq.write_table(table, file, row_group_size=len(table), use_dictionary=["text"])

    def begin(self, resume: bool) -> None:
        """Nothing: all that counts lies in the folder."""

    def holds(self, manifest: Manifest) -> bool:
        """Whether all shards are there that the manifest counts, or were until they had become the whole file."""
        if self.whole and manifest.done == manifest.rows and not self._part(0).exists():
            return self.whole.exists()
        try:
            rows = [pq.read_metadata(part).num_rows for part in self.files(manifest)]
            return bool(manifest.done == sum(rows))
        except (OSError, pa.ArrowException):
            return False

    def finish(self, manifest: Manifest, kept: Kept) -> Path | str:
        """The finished output: its path, or its URL."""
        if self.whole is None:
            kept.path.unlink(missing_ok=True)
            return self.folder
        if self._part(0).exists():  # not so where a kill came while the parts were removed
            about = {METADATA: json.dumps(manifest.record)}  # a reader knows the model
            schema = pq.read_schema(self._part(0)).with_metadata(about)
            with new_file(self.whole) as file, pq.ParquetWriter(file, schema, use_dictionary=["text"]) as writer:
                for part in self.files(manifest):
                    table = pq.read_table(part)
                    writer.write_table(table, row_group_size=len(table))
        return self.whole

    def files(self, manifest: Manifest) -> list[Path]:
        """Of the shards that count."""
        return [self._part(shard) for shard in range(manifest.shards)]

    def clear(self) -> None:
        """Remove the shards."""
        for path in sorted(self.folder.glob("part-?????.parquet")):
            path.unlink()
        (self.folder / COLUMNS_FILE).unlink(missing_ok=True)

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.parquet"


class OneArray:
    """One float32 array (N, D) in the .npy format, which grows in ``folder`` and moves to ``whole`` in the end."""

    def __init__(self, folder: Path, whole: Path) -> None:
        self.folder, self.whole, self.shown, self._draft = folder, whole, str(folder), folder / "vectors.npy"

    def append(self, manifest: Manifest, texts: list[str], vectors: Vectors, kept: Kept) -> None:
        """Write vectors (n, D) after the rows that the manifest counts, over what a kill left there."""
        self._array(manifest).append(manifest.done, vectors)

    def begin(self, resume: bool) -> None:
        """Nothing: all that counts lies in the folder."""

    def holds(self, manifest: Manifest) -> bool:
        """Whether all rows are there that the manifest counts; once moved to its place the array is whole."""
        if manifest.done == manifest.rows and not self._draft.exists():
            return self.whole.exists()
        return self._array(manifest).holds(manifest.done)

    def finish(self, manifest: Manifest, kept: Kept) -> Path:
        """The finished output: the kept columns first, so that the array never stands without them."""
        if self._draft.exists():  # not so where a kill came before the folder was removed
            if kept.names:
                kept.write(beside(self.whole))
            self._array(manifest).finish(self.whole)
        return self.whole

    def clear(self) -> None:
        """Remove the shards."""
        self._draft.unlink(missing_ok=True)
        (self.folder / COLUMNS_FILE).unlink(missing_ok=True)

    def _array(self, manifest: Manifest) -> GrowingArray:
        return GrowingArray(self._draft, manifest.rows, manifest.dimension)


def beside(array: Path) -> Path:
    """Where the kept columns of OUT.npy lie: OUT.kept.parquet."""
    return array.with_suffix(".kept.parquet")


def destination(output: str | Path) -> Parts | OneArray:
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
    if path.is_symlink():
        raise UserError(f"output {path} is a symbolic link", "name what it leads to")
    if not kind:
        return Parts(path)
    work = path.with_name(path.name + ".parts")
    return OneArray(work, path) if kind == ".npy" else Parts(work, path)


@contextmanager
def held(store: Parts | OneArray) -> Iterator[None]:
    """Hold the store's folder for this process alone. If no shard is whole in the end, nothing stays.

    Raises:
        UserError: it holds other files, another process writes there, it cannot be written to, the disk is full.
    """
    folder = store.folder
    with hold(folder, OUTPUT_KIND, "give the same arguments again to go on"):
        try:
            yield
        finally:
            if not _begun(folder):
                (folder / MANIFEST).unlink(missing_ok=True)
                store.clear()
                if store.whole:
                    remove(folder)


def _begun(folder: Path) -> bool:
    """Whether the shards in a folder count, or may count."""
    try:
        manifest = Manifest.read(folder)
    except UserError:
        return True
    return manifest is not None and manifest.done > 0
