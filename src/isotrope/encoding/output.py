"""Vectors on disk: written in parts, each whole or not there, in the end as one file if that is
wanted; read again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import xxhash

from isotrope.encoder.embed import Vectors
from isotrope.encoding.tasks import EMBEDDING, ShardTask, part_name
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder
from isotrope.store.files import (
    Record,
    check_place,
    claim,
    clear_drafts,
    draft_path,
    move,
    new_file,
    read_record,
    remove,
    write_json,
)
from isotrope.store.remote import is_url, remote_files, remote_names, upload, without_secrets

KIND = "folder of vectors"  # of the mark
# readers of tables pass over a "_"
IDENTITY, MANIFEST, ROWS = ".job.json", "_manifest.json", "_rows.parquet"
METADATA = b"isotrope"  # where OUT.parquet holds its manifest
FILES = ("", ".npy", ".parquet")  # how an output ends; "" is a folder
_AGAIN = "encode the texts again"


@dataclass(frozen=True, slots=True)
class Output:
    """What the user named."""

    shown: str  # in messages
    # of the job, and of the parts; if these go to a URL, in the cache, so the work goes on only
    # here
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
            remedy = "move it away, or keep its columns again"
            raise UserError(f"{older} would lie beside an array of other rows", remedy)
        names, why = remote_names(self.url) if self.url else set[str](), ""
        # finished: it says itself what it is, whichever machine made it
        if MANIFEST in names and not restart:
            text = remote_files(f"{self.url}/{MANIFEST}")[0].open().read()
            try:
                record = json.loads(text)
                made_from = dict(record["made_from"])
            except (ValueError, LookupError, TypeError):
                why = f"holds a {MANIFEST} that isotrope did not write"
            else:
                claim(self.folder, KIND)
                write_json(self.folder / IDENTITY, made_from)
                write_json(self.folder / MANIFEST, record)
        elif names and (restart or not (self.folder / IDENTITY).exists()):
            why = "holds files, and their work was not begun here"
        if why:
            raise UserError(
                f"{self.shown} {why}", "delete them to start again, or write to another folder"
            )

    def begun(self, key: str) -> Any:
        """What the identity of the work that was begun here says of ``key``; None: there is none,
        or it is damaged.
        """
        with suppress(UserError):
            return read_record(self.folder / IDENTITY).get(key)
        return None

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """At the end, remove what is only needed for parts that are missing. If no part is whole,
        nothing stays.
        """
        try:
            yield
        finally:
            begun = bool(self._names())
            if not begun or (self.folder / MANIFEST).exists():
                (self.folder / ROWS).unlink(missing_ok=True)
            for name in () if begun else (IDENTITY, MANIFEST):
                (self.folder / name).unlink(missing_ok=True)

    def missing(self, sizes: Sequence[int]) -> list[int]:
        """The shards that have no whole part, of these numbers of rows."""
        names = self._names()
        parts = [(part_name(number), rows) for number, rows in enumerate(sizes)]
        return [
            number
            for number, (name, rows) in enumerate(parts)
            if name not in names or self._torn(name, rows)
        ]

    def _names(self) -> set[str]:
        there = (
            remote_names(self.url)
            if self.url
            else [path.name for path in self.folder.glob("part-*")]
        )
        return {name for name in there if name.startswith("part-")}

    def _torn(self, name: str, rows: int) -> bool:
        try:
            # an object is always whole
            return not self.url and pq.read_metadata(self.folder / name).num_rows != rows
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
        _write_whole(
            self.whole,
            record,
            [self.folder / part_name(number) for number in range(record["shards"])],
        )
        # at one stroke: a part that is missing would be encoded again
        gone = draft_path(self.folder)
        move(self.folder, gone)
        remove(gone)
        return self.whole


def _write_whole(path: Path, record: Record, parts: Sequence[Path]) -> None:
    """One file of all parts: Parquet with the manifest, or an array (N, D) after the columns that
    are kept.
    """
    schema = pq.read_schema(parts[0])
    if path.suffix == ".parquet":
        about = schema.with_metadata({METADATA: json.dumps(record)})  # a reader knows the model
        with (
            new_file(path) as file,
            pq.ParquetWriter(file, about, use_dictionary=["text"]) as writer,
        ):
            for table in _tables(parts):
                writer.write_table(table, row_group_size=len(table))
        return
    if columns := list(range(1, len(schema) - 1)):
        kept = pa.schema([schema.field(number) for number in columns])
        with new_file(beside(path)) as file, pq.ParquetWriter(file, kept) as writer:
            for table in _tables(parts):
                writer.write_table(table.select(columns))
    with new_file(path) as file:
        shape = (record["rows"], record["dimension"])
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
        for table in _tables(parts):
            file.write(
                table.column(table.num_columns - 1).combine_chunks().flatten().to_numpy().data
            )


def _tables(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """The parts, one at a time; two of their columns may have one name."""
    return (pq.ParquetFile(part).read() for part in parts)


def beside(array: Path) -> Path:
    """Where the kept columns of OUT.npy are: OUT.kept.parquet."""
    return array.with_suffix(".kept.parquet")


def destination(output: str | Path) -> Output:
    """What ``output`` names: OUT.npy, OUT.parquet (both worked on in OUT.npy.parts/, …), a folder
    or its URL.
    """
    url, path, shown = is_url(output), Path(output), without_secrets(str(output).rstrip("/"))
    is_folder = str(output).endswith("/") or (path.is_dir() and path.suffix not in FILES)
    kind, web = "" if is_folder else path.suffix, shown.startswith(("http://", "https://"))
    ending = (
        "end it in .npy or .parquet, or name a folder (with / at its end where its name has a dot)"
    )
    faults = (
        (not str(output), "is empty", "name a .npy or .parquet file, or a folder"),
        (web, "is a web address, which cannot be written to", "name an object store (s3://, …)"),
        (
            url and kind in FILES[1:],
            "is a file: behind a URL only a folder grows safely",
            "end it in /",
        ),
        (not url and kind not in FILES, f"has the unknown ending {kind!r}", ending),
        (
            kind and path.is_dir(),
            "is a folder",
            "name a file, or put / at the end to write into the folder",
        ),
    )
    for holds, problem, remedy in faults:
        if holds:
            raise UserError(f"output {shown} {problem}", remedy)
    if url:
        address = str(output).rstrip("/")
        return Output(
            shown, cache_folder("outputs", xxhash.xxh3_64_hexdigest(address.encode())), url=address
        )
    if not kind:
        return Output(str(path), path)
    work = path.with_name(path.name + ".parts")
    clear_drafts(work.parent, work.name)
    return Output(str(work), work, path)


class Stored:
    """What `isotrope encode` wrote, read again: ``rows`` vectors of ``dimension`` on disk. None of
    them is read yet.

    ``manifest`` tells what they are made from; it is None for an array, which does not say it.
    """

    def __init__(self, path: str | Path) -> None:
        """``path``: OUT.npy, OUT.parquet or a folder."""
        self.path = Path(path)
        self.manifest: Record | None = None
        whole = self.path.is_file() and self.path.suffix in FILES[1:]
        if not whole and not (self.path / MANIFEST).is_file():
            if (self.path / IDENTITY).is_file():
                raise UserError(f"{path} is not finished", "give the command isotrope encode again")
            remedy = "give what it wrote: OUT.npy, OUT.parquet or a folder"
            raise UserError(f"{path} is not an output of isotrope encode", remedy)
        self.is_array = whole and self.path.suffix == ".npy"
        with self._reading():
            self._array() if self.is_array else self._parquet()

    def _array(self) -> None:
        array = np.lib.format.open_memmap(self.path, mode="r")
        if array.ndim != 2 or array.dtype != np.float32 or not array.size:
            raise ValueError(
                f"{array.dtype} numbers of shape {array.shape}, not one float32 vector a row"
            )
        self.rows, self.dimension = array.shape
        kept = beside(self.path)
        self._table = ds.dataset(kept) if kept.exists() else None
        if self._table and (count := self._table.count_rows()) != self.rows:
            raise ValueError(f"{kept} has {count:,} rows, and this array {self.rows:,}")

    def _parquet(self) -> None:
        if self.path.is_dir():
            self.manifest = read_record(
                self.path / MANIFEST, {"rows": int, "model": str, "made_from": dict}, _AGAIN
            )
        self._table = ds.dataset(self.path)
        if about := (self._table.schema.metadata or {}).get(METADATA):
            self.manifest = json.loads(about)
        self.rows = self._table.count_rows()
        if self.manifest and self.rows != self.manifest["rows"]:
            raise ValueError(f"it has {self.rows:,} of {self.manifest['rows']:,} rows")
        kind: Any = self._table.schema.field(EMBEDDING).type
        if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
            raise ValueError(f"its column {EMBEDDING!r} does not hold float32 vectors")
        self.dimension = kind.list_size

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order, at most ``size`` rows at a time: (n, D) float32, for the
        caller to change.
        """
        with self._reading():
            if self.is_array:
                # mapped again: pages that were read count as memory until then
                for start in range(0, self.rows, size):
                    yield np.array(
                        np.lib.format.open_memmap(self.path, mode="r")[start : start + size]
                    )
            elif self._table:
                options = {"batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
                for batch in self._table.to_batches(columns=[EMBEDDING], **options):
                    yield np.array(batch[EMBEDDING].flatten()).reshape(-1, self.dimension)

    def texts(self) -> list[str]:
        """The text of every row, of an output that holds texts."""
        assert self._table is not None
        with self._reading():
            return [
                line or "" for line in self._table.to_table(columns=["text"])["text"].to_pylist()
            ]

    def fields(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Text and kept columns of these rows, by row."""
        wanted = sorted(set(rows))
        if self._table is None:
            return {row: {} for row in wanted}
        with self._reading():
            columns = [name for name in self._table.schema.names if name != EMBEDDING]
            return dict(
                zip(wanted, self._table.take(wanted, columns=columns).to_pylist(), strict=True)
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what can go wrong in a file of ours into a UserError that names it."""
        try:
            yield
        except UserError:
            raise
        except (OSError, ValueError, EOFError, KeyError, TypeError, pa.ArrowException) as error:
            raise UserError(f"{self.path} cannot be read ({error})", _AGAIN) from error
