"""Documents: the text of a Markdown or HTML file, block after block, without markup, code and navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser

from isotrope.errors import UserError
from isotrope.text.files import LONGEST_LINE, TextFile, lines

Block = tuple[int, str]  # where it begins, from 1: the line in Markdown, the block's number in HTML; its text

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n\s*[\w\"'-]+\s*[:=].*?\n\1[ \t]*(\r?\n|\Z)", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_LEFT_OUT = "head, script, style, template, noscript, nav, footer, form, button, pre, svg, iframe, object"
_BLOCKS = (
    "address, article, aside, blockquote, caption, dd, details, div, dl, dt, fieldset, figcaption, figure, h1, h2, h3, "
    "h4, h5, h6, header, hr, li, main, ol, p, section, summary, table, tr, ul"
)
_END = "\x1e"  # separates blocks; white space to str.split


def document_blocks(source: TextFile) -> Iterator[Block]:
    """The paragraphs, headings, list items and table rows of a document. An empty file has none.

    Left out: front matter, blocks of code, images, comments, addresses that stand for themselves; in HTML also the
    head, scripts, forms, navigation and footers.

    Raises:
        UserError: what `lines` raises; a document that does not fit into `LONGEST_LINE` bytes.
    """
    if source.path.stat().st_size == 0:
        return
    pages, size = list[str](), 0
    for line in lines(source):
        pages.append(line)
        if (size := size + len(line)) >= LONGEST_LINE:
            raise UserError(f"{source.path} is longer than {LONGEST_LINE:,} characters", "cut it into several files")
    yield from (_markdown if source.format == ".md" else _html)("".join(pages))


def _markdown(text: str) -> Iterator[Block]:
    text = _FRONT_MATTER.sub(lambda found: "\n" * found[0].count("\n"), text)  # the numbers of lines stay
    row: list[str] | None = None  # the cells of a table's row
    begin = 1
    for token in _MARKDOWN.parse(text):
        begin = token.map[0] + 1 if token.map else begin
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close" and row is not None:
            yield begin, " ".join(row)
            row = None
        elif token.type == "html_block":
            yield from ((begin, inner) for _, inner in _html(token.content))
        elif token.type == "inline" and (words := _inline(token.children or [])):
            if row is None:
                yield begin, words
            else:
                row.append(words)


def _inline(tokens: Sequence[Token]) -> str:
    """The text of a block; nothing where it is code alone."""
    parts, prose, address = list[str](), False, False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            address = token.type == "link_open" and token.markup == "autolink"
        elif token.type in ("softbreak", "hardbreak") or token.content == "<br>":
            parts.append(" ")
        elif token.type in ("text", "code_inline") and not address:
            parts.append(token.content)
            prose = prose or (token.type == "text" and any(map(str.isalnum, token.content)))
    return " ".join("".join(parts).split()) if prose else ""


def _html(text: str) -> Iterator[Block]:
    page = LexborHTMLParser(_sound(text))
    page.strip_tags(_LEFT_OUT.split(", "))
    if (body := page.body) is None:
        return
    for node in body.css(_BLOCKS):
        node.insert_before(_END)
        node.insert_after(_END)
    for node in body.css("td, th, br"):
        node.insert_before(" ")
    parts = (" ".join(part.split()) for part in body.text().split(_END))
    yield from enumerate(filter(None, parts), start=1)


def _sound(text: str) -> str:
    """A page whose bytes are not UTF-8, decoded as it says, or as browsers do where it says nothing."""
    raw = text.encode(errors="surrogateescape")
    declared = re.search(rb"charset\s*=\s*[\"']?([\w-]+)", raw[:1024])
    for encoding in ("utf-8", declared[1].decode() if declared else "cp1252"):
        with suppress(UnicodeDecodeError, LookupError):
            return raw.decode(encoding)
    return raw.decode("cp1252", "replace")
