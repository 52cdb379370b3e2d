"""Documents of a file, one at a time: a file, a block between blank lines, a line, or a row of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO

from isotrope.errors import UserError
from isotrope.text.cleaning import Tally
from isotrope.text.documents import read_page, whole_text
from isotrope.text.files import TextFile
from isotrope.text.lines import LONGEST_LINE, lines
from isotrope.text.readers import table_rows

_SPOOL = 1 << 26  # bytes of it in memory
TEXT_COLUMNS = ("text", "paragraphs", "body", "content")  # the first that a table has is read


@dataclass(frozen=True, slots=True)
class Document:
    """A title, which may be "", and paragraphs."""

    title: str
    paragraphs: list[str]

    @property
    def text(self) -> str:
        """Title and paragraphs, joined by a blank."""
        return " ".join([self.title, *self.paragraphs] if self.title else self.paragraphs)


NumberedDocument = tuple[str, Document]  # "file:line" where it begins, or "file"; the document


@dataclass(frozen=True, slots=True)
class DocumentColumns:
    """Which columns of a table are read. The values of text are strings, or lists of strings: the paragraphs.

    Attributes:
        title: None: the column ``title`` if there is one.
        text: None: the first of `TEXT_COLUMNS` that there is.
    """

    title: str | None = None
    text: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that must hold strings, for `table_rows`: none, since a text may be a list."""
        return ()

    def choose(self, path: object, columns: Sequence[tuple[str, str]], kept: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The column of text and, if there is one, that of titles, among these: (name, type's name)."""
        known = [name for name, _ in columns]
        text = self.text or next((name for name in TEXT_COLUMNS if name in known), None)
        listed = ", ".join(known) or "none"
        if text is None:
            looked = f"{', '.join(TEXT_COLUMNS[:-1])} or {TEXT_COLUMNS[-1]}"
            raise UserError(f"{path} has no column {looked} (columns: {listed})", "name the text column (--text)")
        title = self.title or ("title" if "title" in known and text != "title" else None)
        chosen = (text,) if title is None else (text, title)
        for name in chosen:
            if known.count(name) != 1:
                fault = f"no column {name!r} (columns: {listed})" if name not in known else f"two columns {name!r}"
                raise UserError(f"{path} has {fault}", "name one of its columns")
        return chosen


def read_documents(sources: Sequence[TextFile], columns: DocumentColumns, tally: Tally) -> Iterator[NumberedDocument]:
    """The documents of all files, in order. The tally learns how a single .txt file was read.

    - .md, .html: a file is a document. Its title: see `read_page`.
    - .txt: a file is a document, and blank lines separate its paragraphs. A .txt file that is the only file holds many
      documents: blocks between blank lines or, if it has no blank lines, lines.
    - tables: a row is a document. Blank lines within a text separate its paragraphs.
    """
    for source in sources:
        if source.format in (".md", ".html"):
            yield str(source), Document(*read_page(source))
        elif source.format != ".txt":
            yield from _table(source, columns)
        elif len(sources) > 1:
            yield str(source), Document("", _paragraphs(whole_text(source)))
        else:
            yield from _pieces(source, tally)


def found_as(sources: Sequence[TextFile], by_block: bool) -> str:
    """How the files were read, in words."""
    formats = {source.format for source in sources}
    found = []
    if pages := [format for format in (".md", ".html") if format in formats]:
        found.append(f"each {' or '.join(pages)} file is a document")
    if ".txt" in formats and len(sources) > 1:
        found.append("each .txt file is a document, with blank lines between its paragraphs")
    elif ".txt" in formats:
        found.append(f"each {'block between blank lines' if by_block else 'line'} is a document")
    if formats - {".md", ".html", ".txt"}:
        found.append("each row of a table is a document")
    return "; ".join(found)


def _pieces(source: TextFile, tally: Tally) -> Iterator[NumberedDocument]:
    """The documents of a single .txt file, one paragraph each. What must be read to tell how is kept meanwhile."""
    found = lines(source) if source.size else iter(())
    with SpooledTemporaryFile(_SPOOL, "w+", encoding="utf-8", errors="surrogateescape", newline="\n") as begun:
        tally.by_block = _has_blocks(found, begun)
        begun.seek(0)
        if tally.by_block:
            yield from _blocks(source, chain(begun, found))
        else:
            yield from ((f"{source}:{number}", Document("", [line])) for number, line in enumerate(begun, start=1))


def _blocks(source: TextFile, found: Iterable[str]) -> Iterator[NumberedDocument]:
    block, begin, size = list[str](), 1, 0
    for number, line in enumerate(found, start=1):
        if not line.strip():
            if block:
                yield f"{source}:{begin}", Document("", ["".join(block)])
            block, size = [], 0
            continue
        begin = begin if block else number
        block.append(line)
        if (size := size + len(line)) >= LONGEST_LINE:
            problem = f"{source}:{begin} begins a document of more than {LONGEST_LINE:,} characters"
            raise UserError(problem, "separate the documents by blank lines")
    if block:
        yield f"{source}:{begin}", Document("", ["".join(block)])


def _has_blocks(found: Iterator[str], begun: IO[str]) -> bool:
    """Whether a blank line comes between two other lines. The lines up to there go to ``begun``."""
    text = blank = False
    for line in found:
        begun.write(line)
        if not line.strip():
            blank = text
        elif blank:
            return True
        else:
            text = True
    return False


def _table(source: TextFile, columns: DocumentColumns) -> Iterator[NumberedDocument]:
    for number, fields in table_rows(source, columns):
        value, title, *_ = (*fields, None, None)  # a blank line has no field; a table without titles, one
        place = f"{source}:{number}"
        if isinstance(value, str | None):
            paragraphs = _paragraphs(value or "")
        elif isinstance(value, list) and all(isinstance(each, str | None) for each in value):
            paragraphs = [each or "" for each in value]
        else:
            problem = f"{place}: the text holds {type(value).__name__}, not a string or strings"
            raise UserError(problem, "name another text column (--text)")
        if not isinstance(title, str | None):
            problem = f"{place}: the title holds {type(title).__name__}, not a string"
            raise UserError(problem, "name another column of titles (--title)")
        yield place, Document(title or "", paragraphs)


def _paragraphs(text: str) -> list[str]:
    return re.split(r"\n\s*\n", text)
