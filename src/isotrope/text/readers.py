"""Rows of a corpus file: the wanted columns of tables, the lines of text, the blocks of documents, one at a time."""

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.errors import UserError
from isotrope.text.files import TextFile, reading_errors
from isotrope.text.lines import LONGEST_LINE, lines
from isotrope.text.pages import document_blocks
from isotrope.text.split import split_text

SEPARATORS = ",;\t|"  # a header of one column that holds one of them is a table with another separator
MANY_LINES = 20  # a quoted field of so many lines may be rows that a stray quotation mark has swallowed
csv.field_size_limit(LONGEST_LINE)  # Python's own limit is 131,072: too long is for the cleaning to say

Kinds = Sequence[tuple[str, str]]  # the columns of a table: their names, each with "string" or another type's name
Choose = Callable[[Kinds], tuple[str, ...]]
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
    def chosen(self) -> tuple[str, ...]:
        """Those besides the text."""
        return () if self.positive is None else (self.positive, *self.negatives)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called when they are read: text, positive, negative_0, … All hold strings."""
        return ("text", "positive", *(f"negative_{i}" for i in range(len(self.negatives))))[: 1 + len(self.chosen)]

    def choose(self, path: object, columns: Kinds, kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Their names in one file, whose columns are these. ``kept`` names further columns, of any type, which follow.

        Without a named text column: the only column of strings besides those named, else "text", else "sentence".
        """
        strings = list(dict.fromkeys(name for name, kind in columns if kind == "string" and name not in self.chosen))
        likely = strings if len(strings) == 1 else ("text", "sentence")
        text = self.text or next((name for name in likely if name in strings), None)
        return pick_columns(path, columns, (text, *self.chosen, *kept), strings=len(self.names))


def pick_columns(path: object, columns: Kinds, chosen: Sequence[str | None], strings: int) -> tuple[str, ...]:
    """The chosen columns, each of them once in the file, and the first ``strings`` of them with strings."""
    known, right = [name for name, _ in columns], list[str]()
    for name in chosen:
        if name is None or known.count(name) != 1 or (len(right) < strings and dict(columns)[name] != "string"):
            listed = ", ".join(name if kind == "string" else f"{name} ({kind})" for name, kind in columns) or "none"
            wrong = f"no column {name!r}" if name not in known else f"no single column {name!r} of strings"
            problem = f"{path} has {wrong if name else 'no single text column'} (columns: {listed})"
            raise UserError(problem, "name one of its columns: that of the text is --text")
        right.append(name)
    return tuple(right)


def rows(source: TextFile, columns: Columns, kept: tuple[str, ...] = ()) -> Iterator[NumberedRow]:
    """The rows of one file, in its order and in constant memory; a document (.md, .html) is held whole.

    The columns in ``kept`` may hold values of any type. They come behind the others. If the file is to be split, each
    sentence is a row, under its text's number.
    """
    strings, further = len(columns.names), (*columns.chosen, *kept)
    if source.format in TABLES:
        found = table_rows(source, lambda kinds: columns.choose(source, kinds, kept), strings)
    elif further:
        problem = f"{source} is not a table, so it has no column {further[0]!r}"
        raise UserError(problem, "give a table (.jsonl, .csv, .tsv, .parquet)")
    else:
        numbered = enumerate(lines(source), start=1) if source.format == ".txt" else document_blocks(source)
        found = ((number, (text,)) for number, text in numbered)
    for number, fields in found:
        if source.split is None or not fields or not fields[0]:
            yield number, fields or (None,) * (1 + len(further))
        else:
            yield from ((number, (sentence,)) for sentence in split_text(fields[0], source.split))


def table_rows(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    """The rows of a table, with the columns that ``choose`` takes from those that there are.

    The first ``strings`` of them must hold strings. A blank line has no fields, so that it is counted.

    A .tsv has no quoting (IANA text/tab-separated-values): a quotation mark is an ordinary character. A .csv follows
    RFC 4180. A row that does not fit its table is an error.
    """
    return TABLES[source.format](source, choose, strings)


def _jsonl(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    chosen: tuple[str, ...] = ()
    for number, line in enumerate(lines(source), start=1):
        if not line.strip():
            yield number, ()
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _wrong(source, number, f"is not valid JSON ({getattr(error, 'msg', error)})") from error
        if not isinstance(record, dict):
            raise _wrong(source, number, "is not a JSON object")
        if not chosen:  # the first object says which columns there are; a null there may become a string later
            chosen = choose([(name, _kind(value)) for name, value in record.items()])
        for place, name in enumerate(chosen):
            if name not in record or (place < strings and _kind(record[name]) != "string"):
                found = f"holds {_kind(record[name])}, not a string" if name in record else "is missing"
                raise _wrong(source, number, f"is not as the first object: {name!r} {found}")
        yield number, tuple(record[name] for name in chosen)


def _wrong(source: TextFile, number: int, problem: str) -> UserError:
    return UserError(f"{source}:{number} {problem}", "put one JSON object on each line, with the same columns")


def _kind(value: object) -> str:
    return "string" if value is None or isinstance(value, str) else type(value).__name__


def _delimited(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    sign = "\t" if source.format == ".tsv" else ","
    table = csv.reader(
        lines(source), delimiter=sign, strict=True, quoting=csv.QUOTE_NONE if sign == "\t" else csv.QUOTE_MINIMAL
    )
    begin = 1  # the line where a row begins: a quoted field may hold line ends
    try:
        header = next(table)
        if len(header) == 1 and (other := next((each for each in SEPARATORS if each in header[0]), None)):
            raise csv.Error(f"its only column {header[0][:80]!r} holds {other!r}, and {sign!r} separates columns")
        places = [header.index(name) for name in choose([(name, "string") for name in header])]
        begin = table.line_num + 1
        for fields in table:
            if fields and len(fields) != len(header):
                raise csv.Error(f"{len(fields)} columns, its header has {len(header)}")
            if _swallowed(table.line_num - begin, fields, sign):
                raise csv.Error(f"a quoted field of {table.line_num - begin + 1} lines, which look like rows")
            yield begin, tuple(fields[place] for place in places) if fields else ()
            begin = table.line_num + 1
    except csv.Error as error:
        remedy = "correct the line: close quotation marks, and put a field that holds the separator in quotes"
        raise UserError(f"{source}:{begin} cannot be read as a table ({error})", remedy) from error


def _swallowed(run: int, fields: list[str], separator: str) -> bool:
    """A stray quotation mark makes one field of all rows up to the next one: many lines that look like rows."""
    for field in fields if run >= MANY_LINES else ():
        inner = [line.count(separator) for line in field.splitlines()[1:-1] if line.strip()]
        if len(inner) >= MANY_LINES - 2 and inner.count(len(fields) - 1) >= 0.75 * len(inner):
            return True
    return False


def _parquet(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    with reading_errors(source), source.open() as raw:
        if source.total is not None:  # the whole file, of which only some columns are read
            deque(source.blocks(raw), maxlen=0)
            raw.seek(0)
        file = pq.ParquetFile(io.BufferedReader(raw))
        chosen = choose([(one.name, "string" if is_string(one.type) else str(one.type)) for one in file.schema_arrow])
        number = 0
        for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(chosen))):
            found = (batch.column(name) for name in chosen)
            parts = [_decoded(one) if is_string(one.type) else one.to_pylist() for one in found]
            for row in zip(*parts, strict=True):
                number += 1
                yield number, row


TABLES = {".jsonl": _jsonl, ".csv": _delimited, ".tsv": _delimited, ".parquet": _parquet}


def is_string(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _decoded(column: pa.Array) -> list[str | None]:
    # as bytes: Arrow does not check that a string is UTF-8, and to_pylist fails on one that is not
    fields = column.cast(pa.large_binary()).to_pylist()
    return [None if field is None else field.decode("utf-8", "surrogateescape") for field in fields]
