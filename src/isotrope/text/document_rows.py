"""Documents of a file, one at a time: a file, a block between blank lines, a line, or a row of a table."""

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
from isotrope.text.readers import DocumentColumns, table_rows

_SPOOL = 1 << 26  # bytes of it in memory


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
        texts = value if isinstance(value, list) else _paragraphs(value) if isinstance(value, str) else [value]
        for name, each in [("title", title), *(("text", text) for text in texts)]:
            if not isinstance(each, str | None):
                problem = f"{place}: the {name} holds {type(each).__name__}, not a string"
                raise UserError(problem, f"name another column (--{name})")
        yield place, Document(title or "", [text or "" for text in texts])


def _paragraphs(text: str) -> list[str]:
    return re.split(r"\n\s*\n", text)
