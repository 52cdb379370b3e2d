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
    blocks = list(_PARSERS[source.format](page))
    headings = [text for _, text, kind in blocks if kind != "text"]
    titles = list(headings)
    if source.format == ".md":
        titles.insert(0, _title_of_front_matter(page))
    else:
        titles.append(_title_tag(page))
    folded = (" ".join(title.split()) for title in titles)
    title = next(filter(None, folded), "")

    body = list[str]()
    title_is_left_out = False
    for _, text, kind in blocks:
        if not title_is_left_out and kind != "text" and text == title:
            title_is_left_out = True
        elif kind != "code heading":
            body.append(text)
    return title, body


def _title_of_front_matter(page: str) -> str:
    matter = _FRONT_MATTER.match(page)
    line = re.search(r"^title\s*[:=]\s*(.+)$", matter[0], re.MULTILINE) if matter else None
    return line[1].strip().strip("\"'") if line else ""


def _title_tag(page: str) -> str:
    node = _tree(page).css_first("title")
    return node.text() if node else ""


def whole_text(source: TextFile) -> str:
    """A text file as one string. An empty file has none."""
    return one_text(str(source), lines(source)) if source.size else ""


def one_text(place: str, text_lines: Iterable[str]) -> str:
    """The lines of one document, which are held in memory."""
    held = list[str]()
    characters = 0
    for line in text_lines:
        held.append(line)
        characters += len(line)
        if characters >= LONGEST_LINE:
            raise UserError(
                f"the document {place} is longer than {LONGEST_LINE:,} characters",
                "cut it into several files, or separate documents by blank lines",
                "document-too-long",
            )
    return "".join(held)


def _markdown(text: str) -> Iterator[_Part]:
    # The numbers of lines stay.
    text = _FRONT_MATTER.sub(lambda matter: "\n" * matter[0].count("\n"), text)
    tokens = _MARKDOWN.parse(text)
    inline = {
        id(token): _inline(token.children or []) for token in tokens if token.type == "inline"
    }
    for token in tokens:
        token.children = None  # emphasis may be nested deeper than Python's stack
    for node in SyntaxTreeNode(tokens).walk(include_self=False):
        line = node.map[0] + 1 if node.map else 1
        if node.type == "html_block":
            for _, words, kind in _html(node.content):
                yield line, words, kind
        elif node.type in ("heading", "paragraph", "tr"):  # a row of a table is one block
            texts = [inline[id(child.token)] for child in node.walk() if child.type == "inline"]
            words = " ".join(text for text, is_prose in texts if is_prose)
            if words:
                yield line, words, "heading" if node.type == "heading" else "text"
            elif node.type == "heading" and texts[0][0]:
                yield line, texts[0][0], "code heading"


def _inline(tokens: Sequence[Token]) -> tuple[str, bool]:
    """The text of a block, and whether it is more than code."""
    pieces = list[str]()
    is_prose = False
    within_address = False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            within_address = token.type == "link_open" and token.markup == "autolink"
        elif token.type in ("softbreak", "hardbreak") or token.content == "<br>":
            pieces.append(" ")
        elif token.type in ("text", "code_inline") and not within_address:
            pieces.append(token.content)
            has_letters = any(map(str.isalnum, token.content))
            is_prose = is_prose or (token.type == "text" and has_letters)
    return " ".join("".join(pieces).split()), is_prose


def _html(text: str) -> Iterator[_Part]:
    page = _tree(text)
    page.strip_tags(_LEFT_OUT.split(", "))
    body = page.body
    if body is None:
        return
    for node in body.css(_BLOCKS):
        node.insert_before(_END)
        node.insert_after(_END)
    for node in body.css("h1, h2, h3, h4, h5, h6"):
        node.insert_before(_HEADING)
    for node in body.css("td, th, br"):
        node.insert_before(" ")
    blocks = [block for block in body.text().split(_END) if block.strip()]
    for number, block in enumerate(blocks, start=1):
        yield number, " ".join(block.split()), "heading" if _HEADING in block else "text"


_PARSERS = {".md": _markdown, ".html": _html}


def _tree(text: str) -> Any:
    """A page's tree. If its bytes are not UTF-8, they are decoded as it says, or as browsers do if
    it says nothing.
    """
    parse = needs("text", "selectolax.lexbor").LexborHTMLParser
    raw = text.encode(errors="surrogateescape")
    declared = re.search(rb"charset\s*=\s*[\"']?([\w-]+)", raw[:1024])
    for encoding in ("utf-8", declared[1].decode() if declared else "cp1252"):
        with suppress(UnicodeDecodeError, LookupError):
            return parse(raw.decode(encoding))
    return parse(raw.decode("cp1252", "replace"))
