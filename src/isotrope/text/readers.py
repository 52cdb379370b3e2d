"""Rows of a corpus file: the wanted columns of tables, the lines of text, the blocks of documents, one at a time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.errors import UserError
from isotrope.text.documents import document_blocks
from isotrope.text.files import TextFile, reading_errors
from isotrope.text.lines import LONGEST_LINE, lines
from isotrope.text.split import split_text

SEPARATORS = ",;\t|"  # a header of one column that holds one of them is a table with another separator
MANY_LINES = 20  # a quoted field of so many lines may be rows that a stray quotation mark has swallowed
csv.field_size_limit(LONGEST_LINE)  # Python's own limit is 131,072: too long is for the cleaning to say

NumberedRow = tuple[int, tuple[Any, ...]]  # line number from 1 (Parquet: row number), the fields, strings; None = null


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are read: `text` (None = found out), a positive for it, and hard negatives."""

    text: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.negatives and self.positive is None:
            raise UserError("negatives are named but no positive", "name the column of the positives too")

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in the corpus: text, positive, negative_0, …"""
        positive = ("positive",) if self.positive is not None else ()
        return ("text", *positive, *(f"negative_{i}" for i in range(len(self.negatives))))

    def choose(self, path: object, columns: Sequence[tuple[str, str]], kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Their names in one file, whose columns are these: (name, "string" or another type's name).

        ``kept`` names further columns, of any type, which follow.

        Without a named text column: the only column of strings besides those named, else "text", else "sentence".
        """
        kinds = dict(columns)
        others = ((self.positive,) if self.positive is not None else ()) + self.negatives
        listed = ", ".join(x if kind == "string" else f"{x} ({kind})" for x, kind in columns) or "none"
        strings = [name for name, kind in kinds.items() if kind == "string" and name not in others]
        if self.text is not None:
            text = self.text
        elif len(strings) == 1:
            text = strings[0]
        else:
            text = next((name for name in ("text", "sentence") if name in strings), "")
            if not text:
                raise UserError(
                    f"{path} has no single text column (columns: {listed})", "name the text column (--text)"
                )
        for place, name in enumerate((text, *others, *kept)):
            if name not in kinds:
                raise UserError(f"{path} has no column {name!r} (columns: {listed})", "name one of its columns")
            if sum(name == column for column, _ in columns) > 1:
                raise UserError(f"{path} has two columns of the name {name!r}", "rename one of them")
            if place <= len(others) and kinds[name] != "string":
                raise UserError(f"column {name!r} of {path} holds {kinds[name]}, not strings", "name a text column")
        return (text, *others, *kept)


def rows(source: TextFile, columns: Columns, kept: tuple[str, ...] = ()) -> Iterator[NumberedRow]:
    """The rows of one file, in its order and in constant memory; a document (.md, .html) is held whole.

    The columns in ``kept`` may hold values of any type. They come behind the others.

    Where the file is to be split, each sentence is a row, under its text's number.

    A .tsv has no quoting (IANA text/tab-separated-values): a quotation mark is an ordinary character. A .csv follows
    RFC 4180. Blank lines come as null rows, so that they are counted. A row that does not fit its table is an error.
    """
    found = (table_rows if source.format in TABLES else _text)(source, columns, kept)
    return found if source.split is None else _split(found, source.split)


class ColumnChoice(Protocol):
    """Which columns of a table are read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that must hold strings: as many as `choose` gives first."""

    def choose(self, path: object, columns: Sequence[tuple[str, str]], kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Their names in one file, as `Columns.choose`."""


def table_rows(source: TextFile, columns: ColumnChoice, kept: tuple[str, ...] = ()) -> Iterator[NumberedRow]:
    """The rows of a table, as `rows`; they are not split."""
    return TABLES[source.format](source, columns, kept)


def _split(found: Iterator[NumberedRow], language: str) -> Iterator[NumberedRow]:
    for number, (text, *_) in found:
        for sentence in split_text(text, language) if text else (text,):
            yield number, (sentence,)


def _text(source: TextFile, columns: Columns, kept: tuple[str, ...]) -> Iterator[NumberedRow]:
    if columns.positive is not None or kept:
        problem = f"{source} is not a table, so it has no column {columns.positive or kept[0]!r}"
        raise UserError(problem, "give a table (.jsonl, .csv, .tsv, .parquet)")
    for number, text in enumerate(lines(source), start=1) if source.format == ".txt" else document_blocks(source):
        yield number, (text,)


def _jsonl(source: TextFile, columns: ColumnChoice, kept: tuple[str, ...]) -> Iterator[NumberedRow]:
    chosen: tuple[str, ...] = ()
    strings = len(columns.names)  # the first columns must hold strings
    for number, line in enumerate(lines(source, cut=False), start=1):
        if not line.strip():
            yield number, (None,) * (strings + len(kept))
            continue
        record = _json_object(source, number, line)
        if not chosen:  # the first object says which columns there are; a null there may become a string later
            chosen = columns.choose(source, [(name, _kind(value)) for name, value in record.items()], kept)
        if missing := [name for name in chosen if name not in record]:
            problem = f"{source}:{number} has no {missing[0]!r} (columns: {', '.join(record)})"
            raise UserError(problem, "add it or remove the line")
        if wrong := [name for name in chosen[:strings] if _kind(record[name]) != "string"]:
            problem = f"{source}:{number}: {wrong[0]!r} holds {_kind(record[wrong[0]])}, not a string"
            raise UserError(problem, "put it in quotes")
        yield number, tuple(record[name] for name in chosen)


def _json_object(source: TextFile, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply, or a number has too many digits")
        raise UserError(
            f"{source}:{number} is not valid JSON ({reason})", "put one JSON object on each line"
        ) from error
    if not isinstance(record, dict):
        raise UserError(f"{source}:{number} is not a JSON object", "put one JSON object on each line")
    return record


def _kind(value: object) -> str:
    return "string" if value is None or isinstance(value, str) else type(value).__name__


def _delimited(source: TextFile, columns: ColumnChoice, kept: tuple[str, ...]) -> Iterator[NumberedRow]:
    tabs = source.format == ".tsv"
    table = csv.reader(
        lines(source, cut=False), delimiter="\t" if tabs else ",", strict=True,
        quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
    )  # fmt: skip
    begin = 1  # the line where a row begins: a quoted field may hold line ends
    try:
        header = next(table)
        if len(header) == 1 and (other := next((sign for sign in SEPARATORS if sign in header[0]), None)):
            problem = f"{source} has the single column {header[0][:80]!r}, which holds {other!r}"
            raise UserError(problem, f"separate the columns by {'a tab' if tabs else 'commas'}")
        places = [header.index(n) for n in columns.choose(source, [(name, "string") for name in header], kept)]
        begin = table.line_num + 1
        for fields in table:
            if fields and len(fields) != len(header):
                problem = f"{source}:{begin} has {len(fields)} columns, its header {len(header)}"
                raise UserError(problem, "correct the line; a field that holds the separator needs quotes (.csv)")
            _refuse_swallowed(source, begin, table.line_num - begin, fields, "\t" if tabs else ",")
            yield begin, tuple(fields[place] if fields else None for place in places)
            begin = table.line_num + 1
    except csv.Error as error:
        remedy = "correct the line; look for a quotation mark that is not closed"
        raise UserError(f"{source}:{begin} cannot be read as a table ({error})", remedy) from error


def _refuse_swallowed(source: TextFile, number: int, run: int, fields: list[str], separator: str) -> None:
    """A stray quotation mark makes one field of all rows up to the next one: many lines that look like rows."""
    for field in fields if run >= MANY_LINES else ():
        inner = [line.count(separator) for line in field.splitlines()[1:-1] if line.strip()]
        if len(inner) >= MANY_LINES - 2 and inner.count(len(fields) - 1) >= 0.75 * len(inner):
            problem = f"{source}:{number} has a quoted field of {run + 1} lines, which look like rows of the table"
            raise UserError(problem, "close the quotation mark; if the lines are one text, give .jsonl or .parquet")


def _parquet(source: TextFile, columns: ColumnChoice, kept: tuple[str, ...]) -> Iterator[NumberedRow]:
    try:
        with reading_errors(source), source.open(seekable=True) as raw, pq.ParquetFile(io.BufferedReader(raw)) as file:
            kinds = [
                (field.name, "string" if is_string(field.type) else str(field.type)) for field in file.schema_arrow
            ]
            chosen = columns.choose(source, kinds, kept)
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(chosen))):
                found = (batch.column(name) for name in chosen)
                parts = [_decoded(one) if is_string(one.type) else one.to_pylist() for one in found]
                for row in zip(*parts, strict=True):
                    number += 1
                    yield number, row
    except pa.ArrowException as error:
        raise UserError(f"{source} is not a readable Parquet file ({error})", "write the file again") from error


TABLES: dict[str, Callable[[TextFile, ColumnChoice, tuple[str, ...]], Iterator[NumberedRow]]] = {
    ".jsonl": _jsonl,
    ".csv": _delimited,
    ".tsv": _delimited,
    ".parquet": _parquet,
}


def is_string(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _decoded(column: pa.Array) -> list[str | None]:
    # as bytes: Arrow does not check that a string is UTF-8, and to_pylist fails on one that is not
    fields = column.cast(pa.large_binary()).to_pylist()
    return [None if field is None else field.decode("utf-8", "surrogateescape") for field in fields]
