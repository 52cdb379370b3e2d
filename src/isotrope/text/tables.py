"""The rows of tables: JSON lines, CSV, TSV, Parquet."""

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.console.progress import tell
from isotrope.errors import UserError
from isotrope.text.files import LONGEST_LINE, TextFile, lines, reading_errors

# A header of one column that holds one of them is a table with another separator.
SEPARATORS = ",;\t|"
# A quoted field of so many lines may be rows that a stray quotation mark has swallowed.
MANY_LINES = 20
_BATCH_ROWS = 1024  # of a Parquet file
# Python's own limit is 131,072: too long is for the cleaning to say.
csv.field_size_limit(LONGEST_LINE)

# The columns of a table: their names, each with "string" or another type's name.
Kinds = Sequence[tuple[str, str]]
Choose = Callable[[Kinds], tuple[str, ...]]
# Line number from 1 (Parquet: row number), and the fields; None = null.
NumberedRow = tuple[int, tuple[Any, ...]]
# The number of a row's last line, and its fields; a blank line has none.
NumberedFields = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are read.

    Attributes:
        text: None: found out from the table.
        positive: of the text.
        negatives: hard ones.
    """

    text: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.negatives and self.positive is None:
            raise UserError(
                "negatives are named but no positive",
                "name the column of the positives too",
                "negatives-without-positive",
            )

    @property
    def chosen(self) -> tuple[str, ...]:
        """Those besides the text."""
        if self.positive is None:
            return ()
        return (self.positive, *self.negatives)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called when they are read: text, positive, negative_0, … All hold
        strings.
        """
        if self.positive is None:
            return ("text",)
        negatives = [f"negative_{number}" for number, _ in enumerate(self.negatives)]
        return ("text", "positive", *negatives)

    def choose(self, path: object, columns: Kinds, kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Their names in one file, whose columns are these.

        ``kept`` names further columns, of any type, which follow. Without a named text column: the
        only column of strings besides those named, else "text", else "sentence".
        """
        text = self.text
        if not text:
            names = {name for name, kind in columns if kind == "string"}
            names.difference_update(self.chosen)
            usual_names = names if len(names) == 1 else ("text", "sentence")
            text = next((name for name in usual_names if name in names), None)
        chosen = (text, *self.chosen, *kept)
        return pick_columns(path, columns, chosen, strings=len(self.names))


def pick_columns(
    path: object, columns: Kinds, chosen: Sequence[str | None], strings: int
) -> tuple[str, ...]:
    """Check that each chosen column is once in the file; the first ``strings`` hold strings."""
    names = [name for name, _ in columns]
    kinds = dict(columns)
    picked = list[str]()
    for name in chosen:
        if name is None:
            raise _no_column(path, columns, "no single text column")
        if name not in names:
            raise _no_column(path, columns, f"no column {name!r}")
        is_fit = kinds[name] == "string" or len(picked) >= strings
        if names.count(name) > 1 or not is_fit:
            raise _no_column(path, columns, f"no single column {name!r} of strings")
        picked.append(name)
    return tuple(picked)


def _no_column(path: object, columns: Kinds, problem: str) -> UserError:
    described = []
    for name, kind in columns:
        described.append(name if kind == "string" else f"{name} ({kind})")
    listed = ", ".join(described) or "none"
    return UserError(
        f"{path} has {problem} (columns: {listed})",
        "name one of its columns: that of the text is --text-column",
        "no-such-column",
    )


def _read_jsonl(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    chosen: tuple[str, ...] = ()
    for number, line in enumerate(lines(source), start=1):
        if not line.strip():
            yield number, ()
            continue
        record = _json_object(source, number, line)
        # The first object says which columns there are; a null there may become a string later.
        if not chosen:
            kinds = {name: _kind(value) for name, value in record.items()}
            chosen = choose(list(kinds.items()))
        place = f"{source}:{number}"
        yield number, _chosen_values(record, chosen, strings, place)


def _json_object(source: TextFile, number: int, line: str) -> dict[str, Any]:
    problem = f"{source}:{number} is not a JSON object"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _not_jsonl(f"{problem} ({error})") from error
    if not isinstance(record, dict):
        raise _not_jsonl(problem)
    return record


def _chosen_values(
    record: dict[str, Any], chosen: Sequence[str], strings: int, place: str
) -> tuple[Any, ...]:
    """Values of a record, of which the first ``strings`` must hold strings."""
    values = list[Any]()
    for name in chosen:
        problem = f"{place} is not as the first object: {name!r}"
        if name not in record:
            raise _not_jsonl(f"{problem} is missing")
        kind = _kind(record[name])
        if len(values) < strings and kind != "string":
            raise _not_jsonl(f"{problem} holds {kind}, not a string")
        values.append(record[name])
    return tuple(values)


def _not_jsonl(problem: str) -> UserError:
    remedy = "put one JSON object on each line, with the same columns"
    return UserError(problem, remedy, "table-not-readable")


def _kind(value: object) -> str:
    return "string" if isinstance(value, str | None) else type(value).__name__


def _read_delimited(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    """The rows of a .csv (RFC 4180) or a .tsv (see `tab_separated`): the line where each begins,
    and the chosen fields.
    """
    separator = "\t" if source.format == ".tsv" else ","
    begin = 1  # the line where a row begins: a quoted field may hold line ends
    try:
        table = SEPARATED[source.format](lines(source))
        end, header = next(table)
        _refuse_other_separator(header, separator)
        chosen = choose([(name, "string") for name in header])
        places = [header.index(name) for name in chosen]
        begin = end + 1
        for end, fields in table:
            line_count = end - begin + 1
            if fields and len(fields) != len(header):
                raise csv.Error(f"{len(fields)} columns, its header has {len(header)}")
            if _has_swallowed_rows(line_count, fields, separator):
                raise csv.Error(f"a quoted field of {line_count} lines, which look like rows")
            chosen_fields = [fields[place] for place in places] if fields else []
            yield begin, tuple(chosen_fields)
            begin = end + 1
    except csv.Error as error:
        raise UserError(
            f"{source}:{begin} cannot be read as a table ({error})",
            "correct the line: close quotation marks, and put a field that holds the separator in "
            "quotes",
            "table-not-readable",
        ) from error


def _comma_separated(table_lines: Iterable[str]) -> Iterator[NumberedFields]:
    table = csv.reader(table_lines, strict=True)
    for fields in table:
        yield table.line_num, fields


def tab_separated(table_lines: Iterable[str]) -> Iterator[NumberedFields]:
    """The rows of a .tsv.

    A tab and a line end separate, and quotation marks are text (IANA text/tab-separated-values).
    But pandas and the csv module put a field with a tab, a line end or a quotation mark in quotes.
    A row is read their way if they would write it exactly so.
    """
    remaining = _Lines(table_lines)
    number = 0
    width = 0  # fields of the header
    for line in remaining:
        block = [line]
        opens_quotes = line.startswith('"') or '\t"' in line
        if opens_quotes and line.count('"') % 2:
            block += _until_quotes_close(remaining)
        fields = _quoted_fields(block, width)
        if fields is None:
            remaining.put_back.extendleft(reversed(block[1:]))
            block = [line]
            plain = line.rstrip("\r\n")
            fields = plain.split("\t") if plain else []
        number += len(block)
        width = width or len(fields)
        yield number, fields


class _Lines(Iterator[str]):
    """Lines of which some may be put back, to come next."""

    def __init__(self, table_lines: Iterable[str]) -> None:
        self._unread = iter(table_lines)
        self.put_back = deque[str]()

    def __next__(self) -> str:
        if self.put_back:
            return self.put_back.popleft()
        return next(self._unread)


def _until_quotes_close(table_lines: Iterator[str]) -> list[str]:
    """Lines up to the first one with an odd number of quotation marks.

    With the line that opens them, they are at most `MANY_LINES`.
    """
    taken = []
    for line in islice(table_lines, MANY_LINES - 1):
        taken.append(line)
        if line.count('"') % 2:
            break
    return taken


SEPARATED = {".csv": _comma_separated, ".tsv": tab_separated}


def _quoted_fields(block: Sequence[str], width: int) -> list[str] | None:
    """The fields of the lines of one row if the csv module writes it exactly so, else None.

    Several lines, each with as many fields as the header, are as many rows.
    """
    content = "".join(block).rstrip("\r\n")
    if '"' not in content:
        return None
    tabs = {line.count("\t") for line in block}
    if len(block) > 1 and width > 1 and tabs == {width - 1}:
        return None
    try:
        (fields,) = csv.reader([content], delimiter="\t", strict=True)
    except (csv.Error, ValueError):  # no row, or several
        return None
    rewritten = io.StringIO(newline="")
    csv.writer(rewritten, delimiter="\t", lineterminator="\n").writerow(fields)
    return fields if rewritten.getvalue() == f"{content}\n" else None


def _refuse_other_separator(header: Sequence[str], separator: str) -> None:
    """Refuse a header of one column that holds another separator."""
    if len(header) != 1:
        return
    for other in SEPARATORS:
        if other in header[0]:
            column = f"its only column {header[0][:80]!r} holds {other!r}"
            raise csv.Error(f"{column}, and {separator!r} separates columns")


def _has_swallowed_rows(line_count: int, fields: Sequence[str], separator: str) -> bool:
    """Whether a stray quotation mark has made one field of all rows up to the next one.

    Then a field has many lines, most of which have as many separators as a row.
    """
    if line_count <= MANY_LINES:
        return False
    separators_of_row = len(fields) - 1
    for field in fields:
        inner_lines = field.splitlines()[1:-1]
        counts = [line.count(separator) for line in inner_lines if line.strip()]
        like_rows = counts.count(separators_of_row)
        has_many_lines = len(counts) >= MANY_LINES - 2
        if has_many_lines and like_rows >= 0.75 * len(counts):
            return True
    return False


def _read_parquet(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    with reading_errors(source), source.open() as raw:
        if source.total is not None:  # the whole file, of which only some columns are read
            deque(source.blocks(raw), maxlen=0)
            raw.seek(0)
        file = pq.ParquetFile(io.BufferedReader(raw))
        kinds = [(column.name, kind_of(column.type)) for column in file.schema_arrow]
        chosen = choose(kinds)
        number = 0
        unique = list(dict.fromkeys(chosen))
        for batch in file.iter_batches(_BATCH_ROWS, columns=unique):
            tell("read", number, file.metadata.num_rows, "rows")
            columns = [_values(batch.column(name)) for name in chosen]
            for row in zip(*columns, strict=True):
                number += 1
                yield number, row


# The rows of a table, with the columns that ``choose`` takes, of which the first ``strings`` must
# hold strings. A blank line has no fields, so that it is counted. A row that does not fit its table
# is an error.
TABLES = {
    ".jsonl": _read_jsonl,
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".parquet": _read_parquet,
}


def kind_of(column_type: pa.DataType) -> str:
    """The name of a column's type; "string" for all kinds of strings."""
    return "string" if is_string(column_type) else str(column_type)


def is_string(column_type: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    if pa.types.is_dictionary(column_type):
        column_type = column_type.value_type
    return bool(
        pa.types.is_string(column_type)
        or pa.types.is_large_string(column_type)
        or pa.types.is_string_view(column_type)
    )


def _values(column: pa.Array) -> list[Any]:
    if not is_string(column.type):
        return list(column.to_pylist())
    # As bytes: Arrow does not check that a string is UTF-8, and to_pylist fails on one that is not.
    values = []
    for encoded in column.cast(pa.large_binary()).to_pylist():
        text = None if encoded is None else encoded.decode("utf-8", "surrogateescape")
        values.append(text)
    return values
