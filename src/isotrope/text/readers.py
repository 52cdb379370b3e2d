"""What files hold, one at a time: rows (of a table, lines, blocks of a page), or documents with
their paragraphs.
"""

import csv
import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.errors import UserError
from isotrope.text.files import LONGEST_LINE, TextFile, lines, reading_errors
from isotrope.text.pages import document_blocks, one_text, read_page, whole_text
from isotrope.text.split import split_text

# a header of one column that holds one of them is a table with another separator
SEPARATORS = ",;\t|"
# a quoted field of so many lines may be rows that a stray quotation mark has swallowed
MANY_LINES = 20
# Python's own limit is 131,072: too long is for the cleaning to say
csv.field_size_limit(LONGEST_LINE)

TEXT_COLUMNS = ("text", "paragraphs", "body", "content")  # of documents in a table
_SPOOL = 1 << 26  # bytes of a file of documents that are kept in memory
# the columns of a table: their names, each with "string" or another type's name
Kinds = Sequence[tuple[str, str]]
Choose = Callable[[Kinds], tuple[str, ...]]
# line number from 1 (Parquet: row number), the fields, strings; None = null
NumberedRow = tuple[int, tuple[Any, ...]]
# "file:line" or "file"; the title, which may be "", and paragraphs
PlacedDocument = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are read: `text` (None = found out), a positive for it, and hard
    negatives.
    """

    text: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.negatives and self.positive is None:
            raise UserError(
                "negatives are named but no positive", "name the column of the positives too"
            )

    @property
    def chosen(self) -> tuple[str, ...]:
        """Those besides the text."""
        return () if self.positive is None else (self.positive, *self.negatives)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called when they are read: text, positive, negative_0, … All hold strings."""
        return ("text", "positive", *(f"negative_{i}" for i in range(len(self.negatives))))[
            : 1 + len(self.chosen)
        ]

    def choose(self, path: object, columns: Kinds, kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Their names in one file, whose columns are these. ``kept`` names further columns, of any
        type, which follow.

        Without a named text column: the only column of strings besides those named, else "text",
        else "sentence".
        """
        strings = list(
            dict.fromkeys(
                name for name, kind in columns if kind == "string" and name not in self.chosen
            )
        )
        likely = strings if len(strings) == 1 else ("text", "sentence")
        text = self.text or next((name for name in likely if name in strings), None)
        return pick_columns(path, columns, (text, *self.chosen, *kept), strings=len(self.names))


def pick_columns(
    path: object, columns: Kinds, chosen: Sequence[str | None], strings: int
) -> tuple[str, ...]:
    """The chosen columns, each of them once in the file, and the first ``strings`` of them with
    strings.
    """
    known, right = [name for name, _ in columns], list[str]()
    for name in chosen:
        if (
            name is None
            or known.count(name) != 1
            or (len(right) < strings and dict(columns)[name] != "string")
        ):
            listed = (
                ", ".join(
                    name if kind == "string" else f"{name} ({kind})" for name, kind in columns
                )
                or "none"
            )
            wrong = (
                f"no column {name!r}"
                if name not in known
                else f"no single column {name!r} of strings"
            )
            problem = f"{path} has {wrong if name else 'no single text column'} (columns: {listed})"
            raise UserError(problem, "name one of its columns: that of the text is --text-column")
        right.append(name)
    return tuple(right)


def rows(source: TextFile, columns: Columns, kept: tuple[str, ...] = ()) -> Iterator[NumberedRow]:
    """The rows of one file, in its order and in constant memory; a document (.md, .html) is held
    whole.

    The columns in ``kept``, of any type, come behind the others. If the file is to be split, each
    sentence is a row.
    """
    strings, further = len(columns.names), (*columns.chosen, *kept)
    if source.format in TABLES:
        found = TABLES[source.format](
            source, lambda kinds: columns.choose(source, kinds, kept), strings
        )
    elif further:
        problem = f"{source} is not a table, so it has no column {further[0]!r}"
        raise UserError(problem, "give a table (.jsonl, .csv, .tsv, .parquet)")
    else:
        numbered = (
            enumerate(lines(source), start=1)
            if source.format == ".txt"
            else document_blocks(source)
        )
        found = ((number, (text,)) for number, text in numbered)
    for number, fields in found:
        if source.split is None or not fields or not fields[0]:
            yield number, fields or (None,) * (1 + len(further))
        else:
            yield from ((number, (sentence,)) for sentence in split_text(fields[0], source.split))


def _jsonl(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    chosen, remedy = tuple[str, ...](), "put one JSON object on each line, with the same columns"
    for number, line in enumerate(lines(source), start=1):
        if not line.strip():
            yield number, ()
            continue
        try:
            record, why = json.loads(line), ""
        except (ValueError, RecursionError) as error:
            record, why = None, f" ({error})"
        if not isinstance(record, dict):
            raise UserError(f"{source}:{number} is not a JSON object{why}", remedy)
        # the first object says which columns there are; a null there may become a string later
        if not chosen:
            chosen = choose([(name, _kind(value)) for name, value in record.items()])
        for place, name in enumerate(chosen):
            if name not in record or (place < strings and _kind(record[name]) != "string"):
                found = (
                    f"holds {_kind(record[name])}, not a string" if name in record else "is missing"
                )
                raise UserError(
                    f"{source}:{number} is not as the first object: {name!r} {found}", remedy
                )
        yield number, tuple(record[name] for name in chosen)


def _kind(value: object) -> str:
    return "string" if value is None or isinstance(value, str) else type(value).__name__


def _delimited(source: TextFile, choose: Choose, strings: int) -> Iterator[NumberedRow]:
    sign = "\t" if source.format == ".tsv" else ","
    table = csv.reader(
        lines(source),
        delimiter=sign,
        strict=True,
        quoting=csv.QUOTE_NONE if sign == "\t" else csv.QUOTE_MINIMAL,
    )
    begin = 1  # the line where a row begins: a quoted field may hold line ends
    try:
        header = next(table)
        if len(header) == 1 and (
            other := next((each for each in SEPARATORS if each in header[0]), None)
        ):
            raise csv.Error(
                f"its only column {header[0][:80]!r} holds {other!r}, and {sign!r} separates columns"
            )
        places = [header.index(name) for name in choose([(name, "string") for name in header])]
        begin = table.line_num + 1
        for fields in table:
            if fields and len(fields) != len(header):
                raise csv.Error(f"{len(fields)} columns, its header has {len(header)}")
            if _swallowed(table.line_num - begin, fields, sign):
                raise csv.Error(
                    f"a quoted field of {table.line_num - begin + 1} lines, which look like rows"
                )
            yield begin, tuple(fields[place] for place in places) if fields else ()
            begin = table.line_num + 1
    except csv.Error as error:
        remedy = "correct the line: close quotation marks, and put a field that holds the separator in quotes"
        raise UserError(f"{source}:{begin} cannot be read as a table ({error})", remedy) from error


def _swallowed(run: int, fields: list[str], separator: str) -> bool:
    """A stray quotation mark makes one field of all rows up to the next one: many lines that look
    like rows.
    """
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
        chosen = choose(
            [
                (one.name, "string" if is_string(one.type) else str(one.type))
                for one in file.schema_arrow
            ]
        )
        batches = file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(chosen)))
        tables = (
            zip(*(_values(batch.column(name)) for name in chosen), strict=True) for batch in batches
        )
        yield from enumerate(chain.from_iterable(tables), start=1)


# The rows of a table, with the columns that ``choose`` takes, of which the first ``strings`` must
# hold strings. A blank
# line has no fields, so that it is counted. A .tsv has no quoting (IANA text/tab-separated-values),
# a .csv follows
# RFC 4180, and a row that does not fit its table is an error.
TABLES = {".jsonl": _jsonl, ".csv": _delimited, ".tsv": _delimited, ".parquet": _parquet}


def is_string(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _values(column: pa.Array) -> list[Any]:
    if not is_string(column.type):
        return list(column.to_pylist())
    # as bytes: Arrow does not check that a string is UTF-8, and to_pylist fails on one that is not
    fields = column.cast(pa.large_binary()).to_pylist()
    return [None if field is None else field.decode("utf-8", "surrogateescape") for field in fields]


def document_rows(
    sources: Sequence[TextFile], title: str | None, text: str | None, how: dict[str, None]
) -> Iterator[PlacedDocument]:
    """The documents of all files, in order. ``how`` is filled with the ways in which they are read,
    in words.

    - .md, .html: a file is a document. Its title: see `read_page`.
    - .txt: a file is a document, and blank lines separate its paragraphs. A .txt file that is the
      only file holds many documents: blocks between blank lines or, if it has no blank lines,
          lines.
    - tables: a row is a document, with the columns ``title`` and ``text``; None: ``title``, if
      there is one, and the first of `TEXT_COLUMNS`. A text is a list of paragraphs, or a string
      with blank lines between them.
    """
    for source in sources:
        if source.format in (".md", ".html"):
            how[f"each {source.format} file is a document"] = None
            heading, paragraphs = read_page(source)
            yield str(source), (heading, *paragraphs)
        elif source.format != ".txt":
            how["each row of a table is a document"] = None
            yield from _table_documents(source, title, text)
        elif len(sources) > 1:
            how["each .txt file is a document, with blank lines between its paragraphs"] = None
            yield str(source), ("", *_paragraphs(whole_text(source)))
        else:
            yield from _pieces(source, how)


def _pieces(source: TextFile, how: dict[str, None]) -> Iterator[PlacedDocument]:
    """The documents of a single .txt file, one paragraph each. What must be read to tell how is
    kept meanwhile.
    """
    found, texts = lines(source), 0  # blocks between blank lines; two are enough to know
    with SpooledTemporaryFile(
        _SPOOL, "w+", encoding="utf-8", errors="surrogateescape", newline="\n"
    ) as begun:
        for is_text, block in groupby(found, _is_text):
            texts += is_text
            begun.writelines(islice(block, 1 if texts == 2 else None))
            if texts == 2:
                break
        how[f"each {'block between blank lines' if texts == 2 else 'line'} is a document"] = None
        begun.seek(0)
        numbered = enumerate(chain(begun, found), start=1)
        if texts < 2:
            yield from ((f"{source}:{number}", ("", line)) for number, line in numbered)
            return
        for is_text, numbered_block in groupby(numbered, lambda line: _is_text(line[1])):
            if is_text:
                begin, first = next(numbered_block)
                place = f"{source}:{begin}"
                yield (
                    place,
                    ("", one_text(place, chain([first], (line for _, line in numbered_block)))),
                )


def _is_text(line: str) -> bool:
    return bool(line.strip())


def _table_documents(
    source: TextFile, title_column: str | None, text_column: str | None
) -> Iterator[PlacedDocument]:
    def choose(columns: Kinds) -> tuple[str, ...]:
        known = [name for name, _ in columns]
        text = text_column or next((name for name in TEXT_COLUMNS if name in known), None)
        title = title_column or ("title" if "title" in known and text != "title" else None)
        return pick_columns(source, columns, (text, title) if title else (text,), strings=0)

    for number, fields in TABLES[source.format](source, choose, 0):
        # a blank line has no field; a table without titles, one
        value, title, *_ = (*fields, None, None)
        texts = (
            value
            if isinstance(value, list)
            else _paragraphs(value)
            if isinstance(value, str)
            else [value]
        )
        for each in (title, *texts):
            if not isinstance(each, str | None):
                problem = f"{source}:{number} holds {type(each).__name__}, not a string"
                raise UserError(problem, "name other columns (--text-column, --title-column)")
        yield (
            f"{source}:{number}",
            (title or "", *(text for text in texts if text and not text.isspace())),
        )


def _paragraphs(text: str) -> list[str]:
    return [
        paragraph
        for paragraph in re.split(r"\n\s*\n", text)
        if paragraph and not paragraph.isspace()
    ]
