"""Pages: the text of a Markdown or HTML file, block after block, without markup, code and
navigation.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from isotrope.errors import UserError, needs
from isotrope.text.files import LONGEST_LINE, TextFile, lines

# where it begins, from 1: the line in Markdown, the block's number in HTML; its text
Block = tuple[int, str]
_Part = tuple[int, str, Literal["text", "heading", "code heading"]]

_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\r?\n\s*[\w\"'-]+\s*[:=].*?\n\1[ \t]*(\r?\n|\Z)", re.DOTALL
)
_NESTED = 200  # levels of lists and quotations that are read; three for each list
_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": _NESTED}).enable(["table", "strikethrough"])
_LEFT_OUT = (
    "head, script, style, template, noscript, nav, footer, form, button, pre, svg, iframe, object"
)
_BLOCKS = (
    "address, article, aside, blockquote, caption, dd, details, div, dl, dt, fieldset, figcaption, figure, h1, h2, h3, "
    "h4, h5, h6, header, hr, li, main, ol, p, section, summary, table, tr, ul"
)
# the first separates blocks, the second marks headings; white space to str.split
_END, _HEADING = "\x1e", "\x1d"


def document_blocks(source: TextFile) -> Iterator[Block]:
    """The paragraphs, headings, list items and table rows of a document. An empty file has none.

    Left out: front matter, blocks of code, images, comments, addresses that stand for themselves;
    in HTML also the head, scripts, forms, navigation and footers.
    """
    parts = _PARSERS[source.format](whole_text(source))
    return ((begin, text) for begin, text, kind in parts if kind != "code heading")


def read_page(source: TextFile) -> tuple[str, list[str]]:
    """The title (of the front matter, else the first heading, else HTML's ``<title>``, else "") and
    other blocks.
    """
    page = whole_text(source)
    parts = list(_PARSERS[source.format](page))
    headings = [text for _, text, kind in parts if kind != "text"]
    if source.format == ".md":
        matter = _FRONT_MATTER.match(page)
        found = re.search(r"^title\s*[:=]\s*(.+)$", matter[0], re.MULTILINE) if matter else None
        titles = [found[1].strip().strip("\"'") if found else "", *headings]
    else:
        node = _tree(page).css_first("title")
        titles = [*headings, node.text() if node else ""]
    title = next(filter(None, (" ".join(title.split()) for title in titles)), "")
    place = next(
        (place for place, (_, text, kind) in enumerate(parts) if kind != "text" and text == title),
        None,
    )
    return title, [
        text for at, (_, text, kind) in enumerate(parts) if at != place and kind != "code heading"
    ]


def whole_text(source: TextFile) -> str:
    """A text file as one string. An empty file has none."""
    return one_text(str(source), lines(source)) if source.size else ""


def one_text(place: str, found: Iterable[str]) -> str:
    """The lines of one document, which are held in memory."""
    kept, size = list[str](), 0
    for line in found:
        kept.append(line)
        if (size := size + len(line)) >= LONGEST_LINE:
            problem = f"the document {place} is longer than {LONGEST_LINE:,} characters"
            raise UserError(
                problem, "cut it into several files, or separate documents by blank lines"
            )
    return "".join(kept)


def _markdown(text: str) -> Iterator[_Part]:
    # the numbers of lines stay
    text = _FRONT_MATTER.sub(lambda found: "\n" * found[0].count("\n"), text)
    tokens = _MARKDOWN.parse(text)
    said = {id(token): _inline(token.children or []) for token in tokens if token.type == "inline"}
    for token in tokens:
        token.children = None  # emphasis may be nested deeper than Python's stack
    for node in SyntaxTreeNode(tokens).walk(include_self=False):
        begin = node.map[0] + 1 if node.map else 1
        if node.type == "html_block":
            yield from ((begin, inner, kind) for _, inner, kind in _html(node.content))
        elif node.type in ("heading", "paragraph", "tr"):  # a row of a table is one block
            inner = [said[id(one.token)] for one in node.walk() if one.type == "inline"]
            if words := " ".join(words for words, prose in inner if prose):
                yield begin, words, "heading" if node.type == "heading" else "text"
            elif node.type == "heading" and inner[0][0]:
                yield begin, inner[0][0], "code heading"


def _inline(tokens: Sequence[Token]) -> tuple[str, bool]:
    """The text of a block, and whether it is more than code."""
    parts, prose, address = list[str](), False, False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            address = token.type == "link_open" and token.markup == "autolink"
        elif token.type in ("softbreak", "hardbreak") or token.content == "<br>":
            parts.append(" ")
        elif token.type in ("text", "code_inline") and not address:
            parts.append(token.content)
            prose = prose or (token.type == "text" and any(map(str.isalnum, token.content)))
    return " ".join("".join(parts).split()), prose


def _html(text: str) -> Iterator[_Part]:
    page = _tree(text)
    page.strip_tags(_LEFT_OUT.split(", "))
    if (body := page.body) is None:
        return
    for node in body.css(_BLOCKS):
        node.insert_before(_END)
        node.insert_after(_END)
    for node in body.css("h1, h2, h3, h4, h5, h6"):
        node.insert_before(_HEADING)
    for node in body.css("td, th, br"):
        node.insert_before(" ")
    parts = [part for part in body.text().split(_END) if part.strip()]
    for number, part in enumerate(parts, start=1):
        yield number, " ".join(part.split()), "heading" if _HEADING in part else "text"


_PARSERS = {".md": _markdown, ".html": _html}


def _tree(text: str) -> Any:
    """A page's tree. If its bytes are not UTF-8, they are decoded as it says, or as browsers do if
    it says nothing.
    """
    raw, parse = (
        text.encode(errors="surrogateescape"),
        needs("text", "selectolax.lexbor").LexborHTMLParser,
    )
    declared = re.search(rb"charset\s*=\s*[\"']?([\w-]+)", raw[:1024])
    for encoding in ("utf-8", declared[1].decode() if declared else "cp1252"):
        with suppress(UnicodeDecodeError, LookupError):
            return parse(raw.decode(encoding))
    return parse(raw.decode("cp1252", "replace"))
