"""The rows that are encoded, one out for each one in, whatever they come from.

They are read once, into a Parquet file with a row group for each shard. So a task finds its own
rows by the number of its shard, and what happens to the sources later changes nothing.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
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

ROWS, CHARACTERS = 4096, 1 << 22  # read at once
# a shard ends early here, so that rows of whole books fit into memory too
SHARD_CHARACTERS = 1 << 26
TEXT = "text"

# where its first row is, and its rows: the text, then the kept columns
Piece = tuple[str, pa.Table]


def write_rows(path: Path, opened: TextSource, keep: Sequence[str], shard: int) -> list[int]:
    """Write rows as a Parquet file with a row group for each shard, with one shard in memory ->
    their sizes.

    A shard has ``shard`` rows, or fewer where the texts are long. A column has one type: whole
    numbers and fractions become fractions, and nulls may become anything. So with columns to keep,
    the rows are read twice.
    """
    _ = opened.files  # found before they are read, so that a change is noticed
    schema = pa.schema([(TEXT, pa.string())])
    if keep:
        schema = reduce(
            _unified,
            pieces_of(opened, keep),
            pa.schema([(name, pa.null()) for name in (TEXT, *keep)]),
        )
    sizes: list[int] = []
    try:
        with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
            for table in _shards(pieces_of(opened, keep), shard, schema):
                writer.write_table(table, row_group_size=len(table))
                sizes.append(len(table))
    except pa.ArrowNotImplementedError as error:
        raise UserError(f"Parquet cannot hold the kept columns ({error})", "keep others") from error
    return sizes


def _shards(pieces: Iterable[Piece], size: int, schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    count = characters = 0
    for _, piece in pieces:
        start = 0
        for row, length in enumerate(pc.utf8_length(piece.column(0)).to_pylist()):
            count, characters = count + 1, characters + length
            if count == size or characters >= SHARD_CHARACTERS:
                waiting.append(piece.slice(start, row + 1 - start))
                yield pa.concat_tables([table.cast(schema) for table in waiting]).combine_chunks()
                waiting, start, count, characters = [], row + 1, 0, 0
        waiting.append(piece.slice(start))
    if count:
        yield pa.concat_tables([table.cast(schema) for table in waiting]).combine_chunks()


def _unified(schema: pa.Schema, piece: Piece) -> pa.Schema:
    """The types that hold the values of both."""
    fields = []
    # each by itself: two columns may have one name
    for a, b in zip(schema, piece[1].schema, strict=True):
        try:
            fields.append(
                pa.unify_schemas(
                    [pa.schema([a]), pa.schema([b])], promote_options="permissive"
                ).field(0)
            )
        except pa.ArrowException as error:
            raise _mixed(a.name, piece[0], f"{a.type} and {b.type}") from error
    return pa.schema(fields)


def _mixed(name: str, where: str, why: object) -> UserError:
    return UserError(
        f"column {name!r} holds values of no one type, from {where} on ({why})", "give it one type"
    )


def pieces_of(opened: TextSource, keep: Sequence[str] = ()) -> Iterator[Piece]:
    """The rows of opened text as they are, in their order, with further columns of any type.

    A blank line or a null is the empty text. Columns of Arrow and Parquet stay as they are.
    """
    for source in opened.files:
        read = _of_parquet if source.format == ".parquet" else _of_values
        yield from read(source, opened.text_column, keep)


def _of_parquet(source: TextFile, text: str | None, keep: Sequence[str]) -> Iterator[Piece]:
    start = 1
    with (
        reading_errors(source),
        io.BufferedReader(source.open()) as raw,
        pq.ParquetFile(raw) as file,
    ):
        kinds = [
            (one.name, "string" if is_string(one.type) else str(one.type))
            for one in file.schema_arrow
        ]
        chosen = Columns(text).choose(source, kinds, tuple(keep))
        for batch in file.iter_batches(ROWS, columns=list(dict.fromkeys(chosen))):
            texts, where = pc.fill_null(batch[chosen[0]].cast(pa.string()), ""), f"{source}:{start}"
            try:
                texts.validate(full=True)
            except pa.ArrowInvalid as error:
                raise _unfit(
                    f"{where}, or a row behind it, holds what is not UTF-8 text"
                ) from error
            yield where, pa.table([texts, *map(batch.column, chosen[1:])], [TEXT, *chosen[1:]])
            start += len(batch)


def _of_values(source: TextFile, text: str | None, keep: Sequence[str]) -> Iterator[Piece]:
    part: list[tuple[Any, ...]] = []
    first = characters = 0
    for number, (value, *others) in rows(source, Columns(text), tuple(keep)):
        line = value or ""
        if source.format == ".txt":
            # the reader has cut it
            if len(line.encode("utf-8", "surrogateescape")) >= LONGEST_LINE:
                raise _unfit(f"{source}:{number} is longer than {LONGEST_LINE} bytes")
            line = line.removesuffix("\n").removesuffix("\r")
        if printable(line) != line:
            raise _unfit(f"{source}:{number} holds what is not UTF-8 text")
        first = first or number
        part.append((line, *others))
        characters += len(line)
        if len(part) == ROWS or characters >= CHARACTERS:
            yield _piece(f"{source}:{first}", part, keep)
            part, first, characters = [], 0, 0
    if part:
        yield _piece(f"{source}:{first}", part, keep)


def _piece(where: str, part: Sequence[tuple[Any, ...]], keep: Sequence[str]) -> Piece:
    texts, *others = zip(*part, strict=True)
    arrays = [pa.array(texts, pa.string())]
    for name, values in zip(keep, others, strict=True):
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise _mixed(name, where, error) from error
    return where, pa.table(arrays, [TEXT, *keep])


def _unfit(problem: str) -> UserError:
    return UserError(problem, "convert the file to UTF-8, or correct the line")
