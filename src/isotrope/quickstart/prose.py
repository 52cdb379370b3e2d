"""The prose in a docstring: its sentences without markup, code, tables and fields.

Docstrings are written in reStructuredText, Markdown, and the styles of NumPy, Google and Epytext, often mixed. So no
parser of one of them: a few rules by line that leave out too much rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Doc = tuple[str, ...]  # the clean sentences of one docstring; the first one is empty where it was not clean

_TABLES = {  # names of sections that are not prose
    *("parameters", "other parameters", "arguments", "args", "keyword arguments", "attributes", "methods"),
    *("returns", "yields", "raises", "warns", "example", "examples", "usage", "references", "see also"),
}
_UNDERLINE = re.compile(r"([-=~^*#\"'+.])\1{2,}\s*$")
_NO_PROSE = re.compile(  # by line: fields (but not a role, such as :class:`A`), tables, doctests, lists
    r"[@|#+>]|:(?![\w:+-]+:`)|\.\. |\.\.\. |[-*•] |\(?(?:\d{1,2}|[a-z])[.)] |\$ "
)
_MARKUP: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(r":[\w:+-]+:`~[^`]*?(\w+)`"), r"\1"),  # :class:`~a.b.C` is shown as C
    (re.compile(r"(?::[\w:+-]+:)?`([^`<]+?)\s*<[^`]*>`_{0,2}"), r"\1"),  # :func:`text <target>`, `text <address>`_
    (re.compile(r"(?::[\w:+-]+:)?(`{1,2})([^`]+)\1_{0,2}"), r"\2"),
    (re.compile(r"!?\[([^\]]+)\]\([^)]*\)"), r"\1"),  # Markdown's [text](address)
    (re.compile(r"(?<!\w)(\*\*?|__)(?=\S)([^*]+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"\s*\[[\w#*]+\]_|\s*\[\d+(?:, ?\d+)*\]"), ""),  # footnotes
    (re.compile(r"</?[A-Za-z][^>]*>"), ""),
]
_END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(]?[A-Z])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|figs?|eqs?|sec|dr|mrs?|ms|prof|st|no|al|refs?|resp|approx|vol|pp?|eds?|ch)|\b[A-Z])\.$",
    re.I,
)
_CODE = re.compile(r"[={}<>\\|$@^~`*]|::|->|://|www\.|__|\bcopyright\b", re.I)


def clean(docstring: str) -> Doc:
    """A docstring's clean sentences; the first is empty where the docstring's own first sentence is not clean.

    Only the first one may lack its full stop, as summary lines do: others without one go on in what was left out.
    """
    found = [s for paragraph in paragraphs(docstring) for s in split(paragraph)]
    rest = [s for s in found[1:] if is_clean(s) and s.rstrip("\"')").endswith((".", "!", "?"))]
    return (found[0] if is_clean(found[0]) else "", *rest) if found else ()


def paragraphs(docstring: str) -> Iterator[str]:
    """The prose of a docstring, a paragraph each, without markup.

    Whatever is indented is no prose: code, or what a parameter means. Neither are the sections of parameters, returned
    values, errors and examples, fields, lists, tables, doctests, fenced code and headings.
    """
    block: list[str] = []
    fenced = in_table = broken = False
    for line in [*docstring.expandtabs().splitlines(), ""]:
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced, bare = not fenced, ""
        elif fenced:
            continue
        if _UNDERLINE.match(bare):
            in_table, block = bool(block) and block[-1].lower() in _TABLES, []
        elif not bare:
            text = " ".join(block)
            if block and not in_table and not (text.endswith(":") and text.rstrip(":").lower() in _TABLES):
                yield _plain(text)
            block, broken = [], False
        elif not broken and _NO_PROSE.match(bare):
            broken = True  # to the end of the block
        elif not broken and not line[0].isspace():
            block.append(bare)


def split(paragraph: str) -> list[str]:
    """Sentences of a paragraph: cut after . ! ? before a capital letter, but not after an abbreviation or initial."""
    found, start = [], 0
    for end in _END.finditer(paragraph):
        if not _ABBREVIATION.search(paragraph[start : end.start() + 1]):
            found.append(paragraph[start : end.end()].strip())
            start = end.end()
    return [*found, paragraph[start:].strip()]


def is_clean(sentence: str) -> bool:
    """Whether this reads as a sentence: 5 to 50 words, a capital first, mostly letters, neither code nor markup."""
    words = sentence.split()
    letters = sum(c.isalpha() or c == " " for c in sentence)
    return (
        5 <= len(words) <= 50
        and sentence.isprintable()  # no control characters, no lone surrogates
        and sentence[0].isupper()
        and sentence[-1] != ":"
        and max(map(len, words)) <= 40
        and letters >= 0.85 * len(sentence)
        and not _CODE.search(sentence)
    )


def _plain(text: str) -> str:
    for pattern, shown in _MARKUP:
        text = pattern.sub(shown, text)
    return " ".join(text.split())
