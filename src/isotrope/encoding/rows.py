"""The rows that are encoded: one out for each one in, whatever they come from.

They are read once, into a Parquet file with a row group for each shard. So a task finds its own
rows by the number of its shard, and what happens to the sources later changes nothing.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isotrope.errors import UserError, printable
from isotrope.text import TextSource
from isotrope.text.files import LONGEST_LINE, TextFile, reading_errors
from isotrope.text.readers import rows
from isotrope.text.tables import Columns, is_string

TEXT = "text"  # the first column of the rows

# A batch ends at the first of these.
BATCH_ROWS = 4096
BATCH_CHARACTERS = 1 << 22
# A shard ends early here, so that rows of whole books fit into memory too.
SHARD_CHARACTERS = 1 << 26


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of one file."""

    location: str  # where the first one is: "notes.csv:17"
    table: pa.Table  # the texts, then the columns to keep


def write_rows(path: Path, source: TextSource, keep: Sequence[str], shard: int) -> list[int]:
    """Write rows as a Parquet file with a row group for each shard -> the sizes of the shards.

    One shard is in memory. It has ``shard`` rows, or fewer if the texts are long. A column has one
    type: whole numbers and fractions become fractions, and nulls may become anything. So with
    columns to keep, the rows are read twice.
    """
    _ = source.files  # listed before they are read, so that a change is noticed
    schema = _common_schema(source, keep) if keep else pa.schema([(TEXT, pa.string())])
    sizes: list[int] = []
    try:
        with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
            for table in _shards(read_batches(source, keep), shard, schema):
                writer.write_table(table, row_group_size=len(table))
                sizes.append(len(table))
    except pa.ArrowNotImplementedError as error:
        problem = f"Parquet cannot hold the kept columns ({error})"
        raise UserError(problem, "keep others", "column-type") from error
    return sizes


def _shards(batches: Iterable[RowBatch], size: int, schema: pa.Schema) -> Iterator[pa.Table]:
    pieces: list[pa.Table] = []
    row_count = 0
    characters = 0
    for batch in batches:
        start = 0
        lengths = pc.utf8_length(batch.table.column(0)).to_pylist()
        for row, length in enumerate(lengths):
            row_count += 1
            characters += length
            if row_count == size or characters >= SHARD_CHARACTERS:
                pieces.append(batch.table.slice(start, row + 1 - start))
                yield _joined(pieces, schema)
                pieces = []
                start = row + 1
                row_count = 0
                characters = 0
        pieces.append(batch.table.slice(start))
    if row_count:
        yield _joined(pieces, schema)


def _joined(pieces: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([piece.cast(schema) for piece in pieces]).combine_chunks()


def _common_schema(source: TextSource, keep: Sequence[str]) -> pa.Schema:
    """For each column a type that holds all of its values."""
    unknown = pa.schema([(name, pa.null()) for name in (TEXT, *keep)])
    return reduce(_unified, read_batches(source, keep), unknown)


def _unified(schema: pa.Schema, batch: RowBatch) -> pa.Schema:
    fields = []
    # One at a time, because two columns may have the same name.
    for old, new in zip(schema, batch.table.schema, strict=True):
        single = [pa.schema([old]), pa.schema([new])]
        try:
            fields.append(pa.unify_schemas(single, promote_options="permissive").field(0))
        except pa.ArrowException as error:
            raise _mixed_types(old.name, batch.location, f"{old.type} and {new.type}") from error
    return pa.schema(fields)


def read_batches(source: TextSource, keep: Sequence[str] = ()) -> Iterator[RowBatch]:
    """The rows of opened text as they are, in their order, with further columns of any type.

    A blank line or a null is the empty text. Columns of Arrow and Parquet stay as they are.
    """
    for file in source.files:
        reader = _read_parquet if file.format == ".parquet" else _read_values
        yield from reader(file, source.text_column, keep)


def _read_parquet(
    source: TextFile, text_column: str | None, keep: Sequence[str]
) -> Iterator[RowBatch]:
    row = 1
    with (
        reading_errors(source),
        io.BufferedReader(source.open()) as raw,
        pq.ParquetFile(raw) as file,
    ):
        kinds = [(field.name, _kind(field.type)) for field in file.schema_arrow]
        text_name, *kept_names = Columns(text_column).choose(source, kinds, tuple(keep))
        names = list(dict.fromkeys([text_name, *kept_names]))
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            location = f"{source}:{row}"
            texts = pc.fill_null(batch[text_name].cast(pa.string()), "")
            try:
                texts.validate(full=True)
            except pa.ArrowInvalid as error:
                raise _not_text(f"{location}, or a row after it, is not UTF-8 text") from error
            columns = [texts, *(batch.column(name) for name in kept_names)]
            yield RowBatch(location, pa.table(columns, [TEXT, *kept_names]))
            row += len(batch)


def _kind(column_type: pa.DataType) -> str:
    return "string" if is_string(column_type) else str(column_type)


def _read_values(
    source: TextFile, text_column: str | None, keep: Sequence[str]
) -> Iterator[RowBatch]:
    """The rows of a file that Python reads, as tables."""
    values: list[tuple[Any, ...]] = []
    location = ""
    characters = 0
    for number, (value, *kept_values) in rows(source, Columns(text_column), tuple(keep)):
        text = _checked(value or "", source, number)
        location = location or f"{source}:{number}"
        values.append((text, *kept_values))
        characters += len(text)
        if len(values) == BATCH_ROWS or characters >= BATCH_CHARACTERS:
            yield _batch(location, values, keep)
            values = []
            location = ""
            characters = 0
    if values:
        yield _batch(location, values, keep)


def _checked(text: str, source: TextFile, number: int) -> str:
    """The text of a row without a line end; UserError if it was cut, or is not UTF-8."""
    if source.format == ".txt":
        if len(text.encode("utf-8", "surrogateescape")) >= LONGEST_LINE:  # the reader has cut it
            raise _not_text(f"{source}:{number} is longer than {LONGEST_LINE} bytes")
        text = text.removesuffix("\n").removesuffix("\r")
    if printable(text) != text:
        raise _not_text(f"{source}:{number} is not UTF-8 text")
    return text


def _batch(location: str, values: Sequence[tuple[Any, ...]], keep: Sequence[str]) -> RowBatch:
    texts, *kept_columns = zip(*values, strict=True)
    arrays = [pa.array(texts, pa.string())]
    for name, column in zip(keep, kept_columns, strict=True):
        try:
            arrays.append(pa.array(column))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise _mixed_types(name, location, error) from error
    return RowBatch(location, pa.table(arrays, [TEXT, *keep]))


def _mixed_types(name: str, location: str, reason: object) -> UserError:
    problem = f"column {name!r} has values of several types, from {location} on ({reason})"
    return UserError(problem, "give it one type", "column-type")


def _not_text(problem: str) -> UserError:
    return UserError(problem, "convert the file to UTF-8, or correct the line", "not-utf-8")
