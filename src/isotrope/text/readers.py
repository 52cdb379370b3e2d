"""What files hold, one at a time: rows, or documents with their paragraphs.

Rows are those of a table, lines, or the blocks of a page.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice, tee
from tempfile import SpooledTemporaryFile
from typing import Any

from isotrope.console.progress import tell
from isotrope.errors import UserError
from isotrope.text.files import TextFile, lines
from isotrope.text.pages import document_blocks, one_text, read_page, whole_text
from isotrope.text.split import split_text
from isotrope.text.tables import TABLES, Columns, Kinds, NumberedRow, pick_columns

TEXT_COLUMNS = ("text", "paragraphs", "body", "content")  # of documents in a table
_SPOOL = 1 << 26  # bytes of a file of documents that are kept in memory
# "file:line" or "file"; the title, which may be "", and paragraphs
PlacedDocument = tuple[str, tuple[str, ...]]


def files_with_progress(files: Sequence[TextFile]) -> Iterator[TextFile]:
    """The files, one after the other; a bar of the caller's shows how many are read."""
    for number, file in enumerate(files):
        if len(files) > 1:
            tell("read", number, len(files), "files")
        yield file


def rows(source: TextFile, columns: Columns, kept: tuple[str, ...] = ()) -> Iterator[NumberedRow]:
    """The rows of one file, in its order and in constant memory.

    A document (.md, .html) is held whole. The columns in ``kept``, of any type, follow the others.
    If the file is to be split, each sentence is a row.
    """
    blank = (None,) * len(columns.names + kept)
    for number, fields in _whole_rows(source, columns, kept):
        text = fields[0] if fields else None
        if source.split is None or not text:
            yield number, fields or blank
        else:
            for sentence in split_text(text, source.split):
                yield number, (sentence,)


def _whole_rows(source: TextFile, columns: Columns, kept: tuple[str, ...]) -> Iterator[NumberedRow]:
    """The rows before they are split; a blank line of a table has no fields."""
    choose = partial(columns.choose, source, kept=kept)
    further = columns.chosen + kept
    if source.format in TABLES:
        yield from TABLES[source.format](source, choose, len(columns.names))
    elif further:
        raise UserError(
            f"{source} is not a table, so it has no column {further[0]!r}",
            "give a table (.jsonl, .csv, .tsv, .parquet)",
            "not-a-table",
        )
    elif source.format == ".txt":
        for number, line in enumerate(lines(source), start=1):
            yield number, (line,)
    else:
        for number, text in document_blocks(source):
            yield number, (text,)


def document_rows(
    sources: Sequence[TextFile],
    title_column: str | None,
    text_column: str | None,
    ways: dict[str, None],
) -> Iterator[PlacedDocument]:
    """The documents of all files, in order.

    ``ways`` is filled with the ways in which they are read, in words.

    - .md, .html: a file is a document. Its title: see `read_page`.
    - .txt: a file is a document, and blank lines separate its paragraphs. A .txt file that is the
      only file holds many documents: blocks between blank lines or, if it has no blank lines,
      lines.
    - tables: a row is a document, with the columns of title and text; None: ``title``, if there is
      one, and the first of `TEXT_COLUMNS`. A text is a list of paragraphs, or a string with blank
      lines between them.
    """
    for source in files_with_progress(sources):
        if source.format in (".md", ".html"):
            ways[f"each {source.format} file is a document"] = None
            heading, paragraphs = read_page(source)
            yield str(source), (heading, *paragraphs)
        elif source.format != ".txt":
            ways["each row of a table is a document"] = None
            yield from _table_documents(source, title_column, text_column)
        elif len(sources) > 1:
            ways["each .txt file is a document, with blank lines between its paragraphs"] = None
            paragraphs = _paragraphs(whole_text(source))
            yield str(source), ("", *paragraphs)
        else:
            yield from _documents_of_one_file(source, ways)


def _documents_of_one_file(source: TextFile, ways: dict[str, None]) -> Iterator[PlacedDocument]:
    """The documents of a single .txt file, one paragraph each.

    What must be read to tell whether blank lines separate them is held meanwhile.
    """
    remaining = lines(source)
    with SpooledTemporaryFile(
        _SPOOL, "w+", encoding="utf-8", errors="surrogateescape", newline="\n"
    ) as head:
        has_blocks = _copy_until_second_block(remaining, head)
        unit = "block between blank lines" if has_blocks else "line"
        ways[f"each {unit} is a document"] = None
        head.seek(0)
        numbered = enumerate(chain(head, remaining), start=1)
        if has_blocks:
            yield from _blocks(source, numbered)
            return
        for number, line in numbered:
            yield f"{source}:{number}", ("", line)


def _copy_until_second_block(remaining: Iterator[str], head: Any) -> bool:
    """Copy lines up to the first one of a second block; whether there is one."""
    blocks = 0
    for is_text, block in groupby(remaining, _is_text):
        blocks += is_text
        if blocks == 2:
            head.writelines(islice(block, 1))
            return True
        head.writelines(block)
    return False


def _blocks(source: TextFile, numbered: Iterator[tuple[int, str]]) -> Iterator[PlacedDocument]:
    """Each block between blank lines as a document."""
    for is_text, block in groupby(numbered, lambda row: _is_text(row[1])):
        if not is_text:
            continue
        numbers, block_lines = tee(block)
        number, _ = next(numbers)
        place = f"{source}:{number}"
        text = one_text(place, (line for _, line in block_lines))
        yield place, ("", text)


def _is_text(line: str | None) -> bool:
    return bool(line and line.strip())


def _table_documents(
    source: TextFile, title_column: str | None, text_column: str | None
) -> Iterator[PlacedDocument]:
    def choose(columns: Kinds) -> tuple[str, ...]:
        names = dict(columns)
        text = text_column
        if text is None:
            text = next((name for name in TEXT_COLUMNS if name in names), None)
        title = title_column
        if title is None and "title" in names and text != "title":
            title = "title"
        chosen = (text, title) if title else (text,)
        return pick_columns(source, columns, chosen, strings=0)

    for number, fields in TABLES[source.format](source, choose, 0):
        # A blank line has no field; a table without titles has one.
        text, title, *_ = (*fields, None, None)
        place = f"{source}:{number}"
        if isinstance(text, str):
            text = _paragraphs(text)
        paragraphs = text if isinstance(text, list) else [text]
        for value in (title, *paragraphs):
            if not isinstance(value, str | None):
                raise UserError(
                    f"{place} holds {type(value).__name__}, not a string",
                    "name other columns (--text-column, --title-column)",
                    "column-not-readable",
                )
        body = filter(_is_text, paragraphs)
        yield place, (title or "", *body)


def _paragraphs(text: str) -> list[str]:
    return list(filter(_is_text, re.split(r"\n\s*\n", text)))
