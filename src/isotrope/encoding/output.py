"""Where vectors are written: in parts, each whole or not there, and in the end as one file if that is wanted."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from isotrope.encoding.tasks import EMBEDDING, ShardTask, part_name
from isotrope.errors import UserError
from isotrope.store.atomic import clear_drafts, draft_path, move, new_file, write_json
from isotrope.store.cache import cache_folder
from isotrope.store.mark import check_place, claim, remove
from isotrope.store.records import Record
from isotrope.store.remote import is_url, remote_files, remote_names, upload, without_secrets

KIND = "folder of vectors"  # of the mark
IDENTITY, MANIFEST, ROWS = ".job.json", "_manifest.json", "_rows.parquet"  # readers of tables pass over a "_"
METADATA = b"isotrope"  # where OUT.parquet holds its manifest
FILES = ("", ".npy", ".parquet")  # how an output ends; "" is a folder


@dataclass(frozen=True, slots=True)
class Output:
    """What the user named.

    The folder is the job's, and holds the parts unless they go to a URL. Then it is in the cache of this machine, so
    the work goes on only here.
    """

    shown: str  # in messages
    folder: Path
    whole: Path | None = None  # the one file that is made of the parts
    url: str | None = None  # of the folder of the parts

    def check(self, kept: Sequence[str], restart: bool) -> None:
        """Check the place, and that it can hold the kept columns."""
        array = self.whole is not None and self.whole.suffix == ".npy"
        if not array and (ours := {"text", EMBEDDING}.intersection(kept)):
            problem = f"keep = {ours.pop()!r}: the output has a column of that name"
            raise UserError(problem, "leave it out, or rename it")
        check_place(self.folder, KIND)
        if self.whole and array and not kept and (older := beside(self.whole)).exists():
            problem = f"{older} would lie beside an array of other rows"
            raise UserError(problem, "move it away, or keep its columns again")
        if self.url:
            self._check_url(self.url, restart)

    def _check_url(self, url: str, restart: bool) -> None:
        """Refuse the files of others. A finished output says itself what it is, whichever machine made it."""
        names, why = remote_names(url), ""
        if names and restart:
            why = f"{self.shown} holds files"
        elif MANIFEST in names:
            try:
                record = json.loads(remote_files(f"{url}/{MANIFEST}")[0].open().read())
                identity = dict(record["made_from"])
            except (ValueError, LookupError, TypeError):
                why = f"{self.shown} holds a {MANIFEST} that isotrope did not write"
            else:
                claim(self.folder, KIND)
                write_json(self.folder / MANIFEST, record)
                write_json(self.folder / IDENTITY, identity)
        elif names and not (self.folder / IDENTITY).exists():
            why = f"{self.shown} holds files, and their work was not begun here"
        if why:
            raise UserError(why, "delete them to start again, or write to another folder")

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """At the end, remove what is only needed for parts that are missing. If no part is whole, nothing stays."""
        try:
            yield
        finally:
            if (self.folder / MANIFEST).exists() or not self._names():
                (self.folder / ROWS).unlink(missing_ok=True)
            if not self._names():
                for name in (IDENTITY, MANIFEST):
                    (self.folder / name).unlink(missing_ok=True)

    def missing(self, sizes: Sequence[int]) -> list[int]:
        """The shards that have no whole part, of these numbers of rows."""
        names = self._names()
        parts = [(part_name(number), rows) for number, rows in enumerate(sizes)]
        return [number for number, (name, rows) in enumerate(parts) if name not in names or self._torn(name, rows)]

    def _names(self) -> set[str]:
        there = remote_names(self.url) if self.url else {path.name for path in self.folder.glob("part-*")}
        return {name for name in there if name.startswith("part-")}

    def _torn(self, name: str, rows: int) -> bool:
        try:
            return not self.url and pq.read_metadata(self.folder / name).num_rows != rows  # an object is always whole
        except (OSError, pa.ArrowException):
            return True

    def task(self, draft: Path, dimension: int, batch_size: int, *, shared: bool) -> ShardTask:
        """What the shards need: their rows lie beside their parts. ``shared``: with other machines."""
        folder = self.folder.absolute()
        move(draft, folder / ROWS)
        rows = str(folder / ROWS)
        if self.url and shared:
            rows = f"{self.url}/{ROWS}"
            upload(folder / ROWS, rows)
        return ShardTask(rows, self.url or str(folder), dimension, batch_size)

    def finish(self, record: Record) -> Path | str:
        """The finished output: its path, or its URL."""
        if self.url and MANIFEST not in remote_names(self.url):
            upload(self.folder / MANIFEST, f"{self.url}/{MANIFEST}")
        if self.whole is None:
            return self.url or self.folder
        _write_whole(self.whole, record, [self.folder / part_name(number) for number in range(record["shards"])])
        gone = draft_path(self.folder)  # at one stroke: a part that is missing would be encoded again
        move(self.folder, gone)
        remove(gone)
        return self.whole


def _write_whole(path: Path, record: Record, parts: Sequence[Path]) -> None:
    """One file of all parts: Parquet with the manifest, or an array (N, D) after the columns that are kept."""
    schema = pq.read_schema(parts[0])
    if path.suffix == ".parquet":
        about = schema.with_metadata({METADATA: json.dumps(record)})  # a reader knows the model
        with new_file(path) as file, pq.ParquetWriter(file, about, use_dictionary=["text"]) as writer:
            for table in map(_table, parts):
                writer.write_table(table, row_group_size=len(table))
        return
    if columns := list(range(1, len(schema) - 1)):
        kept = pa.schema([schema.field(number) for number in columns])
        with new_file(beside(path)) as file, pq.ParquetWriter(file, kept) as writer:
            for table in map(_table, parts):
                writer.write_table(table.select(columns))
    with new_file(path) as file:
        shape = (record["rows"], record["dimension"])
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for table in map(_table, parts):
            file.write(table.column(table.num_columns - 1).combine_chunks().flatten().to_numpy().data)


def _table(part: Path) -> pa.Table:
    """A part, also if two of its columns have one name."""
    with pq.ParquetFile(part) as file:
        return file.read()


def beside(array: Path) -> Path:
    """Where the kept columns of OUT.npy are: OUT.kept.parquet."""
    return array.with_suffix(".kept.parquet")


def destination(output: str | Path) -> Output:
    """What ``output`` names: OUT.npy, OUT.parquet (both worked on in OUT.npy.parts/, …), a folder or its URL."""
    url, path, shown = is_url(output), Path(output), without_secrets(str(output).rstrip("/"))
    is_folder = str(output).endswith("/") or (path.is_dir() and path.suffix not in FILES)
    kind, fault = "" if is_folder else path.suffix, ("", "")
    if not str(output):
        fault = "is empty", "name a .npy or .parquet file, or a folder"
    elif url and shown.startswith(("http://", "https://")):
        fault = "is a web address, which cannot be written to", "name an object store (s3://, …)"
    elif url and kind in FILES[1:]:
        fault = "is a file: behind a URL only a folder grows safely", "end it in /"
    elif not url and kind not in FILES:
        remedy = "end it in .npy or .parquet, or name a folder (with / at its end where its name has a dot)"
        fault = f"has the unknown ending {kind!r}", remedy
    elif kind and path.is_dir():
        fault = "is a folder", "name a file, or put / at the end to write into the folder"
    if fault[0]:
        raise UserError(f"output {shown} {fault[0]}", fault[1])
    if url:
        address = str(output).rstrip("/")
        return Output(shown, cache_folder("outputs", xxhash.xxh3_64_hexdigest(address.encode())), url=address)
    if not kind:
        return Output(str(path), path)
    work = path.with_name(path.name + ".parts")
    clear_drafts(work.parent, work.name)
    return Output(str(work), work, path)
