"""Pages: the text of a Markdown or HTML file, block after block.

Markup, code and navigation are left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from isotrope.errors import UserError, needs
from isotrope.text.files import LONGEST_LINE, TextFile, lines

# Where it begins, from 1: the line in Markdown, the block's number in HTML; its text.
Block = tuple[int, str]


class _PageBlock(NamedTuple):
    """A block of a page, and where it begins."""

    begin: int
    text: str
    kind: Literal["text", "heading", "code heading"]


_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\r?\n\s*[\w\"'-]+\s*[:=].*?\n\1[ \t]*(\r?\n|\Z)", re.DOTALL
)
_FRONT_TITLE = re.compile(r"^title\s*[:=]\s*(.+)$", re.MULTILINE)
_NESTED = 200  # levels of lists and quotations that are read; three for each list
_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": _NESTED}).enable(["table", "strikethrough"])
_LEFT_OUT = (
    "head, script, style, template, noscript, nav, footer, form, button, pre, svg, iframe, object"
)
_BLOCKS = (
    "address, article, aside, blockquote, caption, dd, details, div, dl, dt, fieldset, figcaption, "
    "figure, h1, h2, h3, h4, h5, h6, header, hr, li, main, ol, p, section, summary, table, tr, ul"
)
# One separates blocks, the other marks headings; white space to str.split.
_END = "\x1e"
_HEADING = "\x1d"


def document_blocks(source: TextFile) -> Iterator[Block]:
    """The paragraphs, headings, list items and table rows of a document. An empty file has none.

    Left out: front matter, blocks of code, images, comments, addresses that stand for themselves;
    in HTML also the head, scripts, forms, navigation and footers.
    """
    for block in _PARSERS[source.format](whole_text(source)):
        if block.kind != "code heading":
            yield block.begin, block.text


def read_page(source: TextFile) -> tuple[str, list[str]]:
    """The title and the other blocks.

    The title is that of the front matter, else the first heading, else HTML's ``<title>``, else "".
    """
    page = whole_text(source)
    blocks = list(_PARSERS[source.format](page))
    headings = [block for block in blocks if block.kind != "text"]
    titles = [heading.text for heading in headings]
    if source.format == ".md":
        titles.insert(0, _title_of_front_matter(page))
    else:
        titles.append(_title_tag(page))
    folded = (" ".join(title.split()) for title in titles)
    title = next(filter(None, folded), "")

    for heading in headings:
        if heading.text == title:
            blocks.remove(heading)
            break
    body = [block.text for block in blocks if block.kind != "code heading"]
    return title, body


def _title_of_front_matter(page: str) -> str:
    matter = _FRONT_MATTER.match(page)
    line = _FRONT_TITLE.search(matter[0]) if matter else None
    return line[1].strip().strip("\"'") if line else ""


def _title_tag(page: str) -> str:
    node = _tree(page).css_first("title")
    return node.text() if node else ""


def whole_text(source: TextFile) -> str:
    """A text file as one string. An empty file has none."""
    if not source.size:
        return ""
    return one_text(str(source), lines(source))


def one_text(place: str, text_lines: Iterable[str]) -> str:
    """The lines of one document, which are held in memory."""
    held = []
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


def _markdown(text: str) -> Iterator[_PageBlock]:
    # The numbers of lines stay.
    matter = _FRONT_MATTER.match(text)
    if matter:
        text = "\n" * matter[0].count("\n") + text[matter.end() :]
    tokens = _MARKDOWN.parse(text)
    inline = dict[int, _Inline]()  # of each token, by its id
    for token in tokens:
        if token.type == "inline":
            inline[id(token)] = _inline(token.children or [])
        token.children = None  # emphasis may be nested deeper than Python's stack
    for node in SyntaxTreeNode(tokens).walk(include_self=False):
        begin = node.map[0] + 1 if node.map else 1
        if node.type == "html_block":
            for block in _html(node.content):
                yield block._replace(begin=begin)
        elif node.type in ("heading", "paragraph", "tr"):  # a row of a table is one block
            inner_tokens = [child.token for child in node.walk() if child.type == "inline"]
            texts = [inline[id(token)] for token in inner_tokens]
            is_heading = node.type == "heading"
            prose = " ".join(words.text for words in texts if words.is_prose)
            if prose:
                yield _PageBlock(begin, prose, "heading" if is_heading else "text")
            elif is_heading and texts[0].text:
                yield _PageBlock(begin, texts[0].text, "code heading")


class _Inline(NamedTuple):
    """The text of a block, and whether it is more than code."""

    text: str
    is_prose: bool


def _inline(tokens: Sequence[Token]) -> _Inline:
    pieces = []
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
    text = " ".join("".join(pieces).split())
    return _Inline(text, is_prose)


def _html(text: str) -> Iterator[_PageBlock]:
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
    blocks = filter(str.strip, body.text().split(_END))
    for number, block in enumerate(blocks, start=1):
        words = " ".join(block.split())
        yield _PageBlock(number, words, "heading" if _HEADING in block else "text")


_PARSERS = {".md": _markdown, ".html": _html}


def _tree(text: str) -> Any:
    """A page's tree.

    If its bytes are not UTF-8, they are decoded as it says, or as browsers do if it says nothing.
    """
    parse = needs("text", "selectolax.lexbor").LexborHTMLParser
    raw = text.encode(errors="surrogateescape")
    declared = re.search(rb"charset\s*=\s*[\"']?([\w-]+)", raw[:1024])
    own_encoding = declared[1].decode() if declared else "cp1252"
    for encoding in ("utf-8", own_encoding):
        with suppress(UnicodeDecodeError, LookupError):
            return parse(raw.decode(encoding))
    return parse(raw.decode("cp1252", "replace"))
