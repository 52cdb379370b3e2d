"""Columns of the input that are carried beside the vectors: `isotrope encode --keep id,title`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.errors import UserError
from isotrope.store.atomic import new_file
from isotrope.text.files import TextFile
from isotrope.text.readers import Columns, rows

COLUMNS_FILE = "kept.arrow"  # in the folder of the shards, until all is whole
ROWS = 4096  # in memory
OURS = ("text", "embedding")  # columns of a Parquet output

KeptRows = tuple[str, list[tuple[Any, ...]]]  # where its first row stands, and the kept fields of its rows


class Kept:
    """The kept columns of all rows, in one memory-mapped file with one type a column.

    The file is made when it is first needed, so a call that goes on after a kill has it, or makes the same again.

    Args:
        names: of the columns, in their order; none: nothing is kept, and no file is made.
        sources: the files that have them.
        text: the column of the sentences, which `Columns.choose` finds.
        folder: where the file lies.
    """

    def __init__(self, names: Sequence[str], sources: Sequence[TextFile], text: str | None, folder: Path) -> None:
        self.names, self.path = tuple(names), folder / COLUMNS_FILE
        self._sources, self._text = sources, text
        self._table: pa.Table | None = None

    def columns(self, start: int, count: int) -> dict[str, Any]:
        """Name -> the values of ``count`` rows from row ``start``."""
        if not self.names:
            return {}
        part = self._opened().slice(start, count)
        return dict(zip(part.column_names, part.columns, strict=True))

    def write(self, target: Path) -> None:
        """All rows as a Parquet file."""
        table = self._opened()
        with new_file(target) as file, pq.ParquetWriter(file, table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)

    def make(self) -> None:
        """Make the file.

        Raises:
            UserError: a column is missing or its values are of several types (with file and line).
        """
        if not self.names:
            return
        schema = pa.schema([pa.field(name, pa.null()) for name in self.names])
        for where, fields in self._parts():
            schema = _unified(schema, _table(fields, self.names, where).schema, where)
        try:
            pq.write_table(schema.empty_table(), pa.BufferOutputStream())
        except pa.ArrowException as error:
            raise UserError(f"Parquet cannot hold the kept columns ({error})", "keep others") from error
        with new_file(self.path) as file, pa.ipc.new_file(file, schema) as writer:
            for where, fields in self._parts():
                writer.write_table(_table(fields, self.names, where).cast(schema))
        self._table = None

    def _opened(self) -> pa.Table:
        if self._table is None:
            if not self.path.exists():
                self.make()
            self._table = pa.ipc.open_file(pa.memory_map(str(self.path))).read_all()
        return self._table

    def _parts(self) -> Iterator[KeptRows]:
        for source in self._sources:
            found = rows(source, Columns(self._text), self.names)
            while part := list(islice(found, ROWS)):
                yield f"{source.path}:{part[0][0]}", [fields[1:] for _, fields in part]


def check_names(names: Sequence[str], parquet: bool) -> None:
    """Refuse columns that the output cannot hold. ``parquet``: they stand in one table with text and vectors.

    Raises:
        UserError: a name is empty, occurs twice, or is that of a column of our own.
    """
    for name in names:
        if not name:
            raise UserError("keep names a column without a name", "write, for example, id,title")
        if names.count(name) > 1:
            raise UserError(f"keep names {name!r} twice", "name it once")
        if parquet and name in OURS:
            raise UserError(f"keep = {name!r}: the output has a column of that name", "leave it out, or rename it")


def _table(fields: list[tuple[Any, ...]], names: Sequence[str], where: str) -> pa.Table:
    """The values (n, C) of n rows as a table."""
    columns = list(zip(*fields, strict=True))
    arrays = []
    for name, values in zip(names, columns, strict=True):
        try:
            arrays.append(pa.array(values))
        except UnicodeEncodeError as error:
            remedy = "convert the file to UTF-8 or correct the line"
            raise UserError(f"column {name!r} holds what is not UTF-8 text, from {where} on", remedy) from error
        except (pa.ArrowException, OverflowError) as error:
            raise _mixed(name, where, str(error)) from error
    return pa.table(arrays, names=list(names))


def _unified(one: pa.Schema, other: pa.Schema, where: str) -> pa.Schema:
    """The types that hold the values of both: whole numbers and fractions become fractions, null becomes anything."""
    fields = []
    for a, b in zip(one, other, strict=True):
        try:
            fields.append(pa.unify_schemas([pa.schema([a]), pa.schema([b])], promote_options="permissive").field(0))
        except pa.ArrowException as error:
            raise _mixed(a.name, where, f"{a.type} and {b.type}") from error
    return pa.schema(fields)


def _mixed(name: str, where: str, how: str) -> UserError:
    problem = f"column {name!r} holds values of several types, from {where} on ({' '.join(how.split())})"
    return UserError(problem, "give it one type")
