"""Documents of a file, one at a time: a file, a block between blank lines, a line, or a row of a table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from tempfile import SpooledTemporaryFile
from typing import IO

from isotrope.errors import UserError
from isotrope.text.files import TextFile
from isotrope.text.lines import lines
from isotrope.text.pages import one_text, read_page, whole_text
from isotrope.text.readers import Kinds, pick_columns, table_rows

TEXT_COLUMNS = ("text", "paragraphs", "body", "content")  # of documents in a table
_SPOOL = 1 << 26  # bytes of it in memory

PlacedDocument = tuple[str, tuple[str, ...]]  # "file:line" or "file"; the title, which may be "", and paragraphs


def document_rows(
    sources: Sequence[TextFile], title: str | None, text: str | None, how: dict[str, None]
) -> Iterator[PlacedDocument]:
    """The documents of all files, in order. ``how`` is filled with the ways in which they are read, in words.

    ``title`` and ``text`` are columns of tables. Without them it is ``title``, if there is one, and the first of
    `TEXT_COLUMNS` that there is. A text is a string, or a list of strings: the paragraphs.

    - .md, .html: a file is a document. Its title: see `read_page`.
    - .txt: a file is a document, and blank lines separate its paragraphs. A .txt file that is the only file holds many
      documents: blocks between blank lines or, if it has no blank lines, lines.
    - tables: a row is a document. Blank lines within a text separate its paragraphs.
    """
    for source in sources:
        if source.format in (".md", ".html"):
            how[f"each {source.format} file is a document"] = None
            heading, paragraphs = read_page(source)
            yield str(source), (heading, *paragraphs)
        elif source.format != ".txt":
            how["each row of a table is a document"] = None
            yield from _table(source, title, text)
        elif len(sources) > 1:
            how["each .txt file is a document, with blank lines between its paragraphs"] = None
            yield str(source), ("", *_paragraphs(whole_text(source)))
        else:
            yield from _pieces(source, how)


def _pieces(source: TextFile, how: dict[str, None]) -> Iterator[PlacedDocument]:
    """The documents of a single .txt file, one paragraph each. What must be read to tell how is kept meanwhile."""
    found = lines(source) if source.size else iter(())
    with SpooledTemporaryFile(_SPOOL, "w+", encoding="utf-8", errors="surrogateescape", newline="\n") as begun:
        by_block = _has_blocks(found, begun)
        how[f"each {'block between blank lines' if by_block else 'line'} is a document"] = None
        begun.seek(0)
        numbered = enumerate(chain(begun, found), start=1)
        if not by_block:
            yield from ((f"{source}:{number}", ("", line)) for number, line in numbered)
            return
        for blank, block in groupby(numbered, lambda line: not line[1].strip()):
            if not blank:
                begin, first = next(block)
                place = f"{source}:{begin}"
                yield place, ("", one_text(place, chain([first], (line for _, line in block))))


def _has_blocks(found: Iterable[str], begun: IO[str]) -> bool:
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


def _table(source: TextFile, title_column: str | None, text_column: str | None) -> Iterator[PlacedDocument]:
    def choose(columns: Kinds) -> tuple[str, ...]:
        known = [name for name, _ in columns]
        text = text_column or next((name for name in TEXT_COLUMNS if name in known), None)
        title = title_column or ("title" if "title" in known and text != "title" else None)
        return pick_columns(source, columns, (text, title) if title else (text,), strings=0)

    for number, fields in table_rows(source, choose, 0):
        value, title, *_ = (*fields, None, None)  # a blank line has no field; a table without titles, one
        texts = value if isinstance(value, list) else _paragraphs(value) if isinstance(value, str) else [value]
        for name, each in [("title", title), *(("text", text) for text in texts)]:
            if not isinstance(each, str | None):
                problem = f"{source}:{number}: the {name} holds {type(each).__name__}, not a string"
                raise UserError(problem, f"name another column (--{name})")
        yield f"{source}:{number}", (title or "", *(text for text in texts if text and not text.isspace()))


def _paragraphs(text: str) -> list[str]:
    return [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph and not paragraph.isspace()]
