"""Texts to sentences, by the rules of `sentencex`, for some 300 languages; and sentences to words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from isotrope.errors import UserError, needs, printable

_CODE = "[a-z]{2,3}"
Language = Annotated[str, Field(pattern=f"^{_CODE}$")]  # a component's option
ENGLISH = "en"  # its rules are right for most languages; some need their own abbreviations
# letters on average: beyond it, the language writes no spaces, and letters count as words
_LONGEST_WORD = 15
# characters given to the rules at once: their time grows with the square of an unclosed quotation
_LONGEST = 10_000


def language_of(split: str) -> str:
    """The language that ``split`` asks for: "sentences" (the rules of English) or "sentences:de";
    else UserError.
    """
    name, colon, language = split.partition(":")
    if name != "sentences" or (colon and not re.fullmatch(_CODE, language)):
        remedy = (
            "choose sentences, or sentences:LANGUAGE with a two-letter code, such as sentences:de"
        )
        raise UserError(f"split = {split!r} is unknown", remedy)
    return language or ENGLISH


def split_text(text: str, language: str = ENGLISH) -> Iterator[str]:
    """The sentences of a text, in order. An empty line ends a sentence too; a single line end does
    not.

    A text that is not sound Unicode, or holds no sentence, comes back whole: cleaning counts it.
    """
    paragraphs = re.split(r"\n\s*\n", text) if printable(text) == text else []
    sentences = (
        one for paragraph in paragraphs for one in _segment(" ".join(paragraph.split()), language)
    )
    yield next(sentences, text)
    yield from sentences


def _segment(text: str, language: str) -> Iterator[str]:
    rules, begin = needs("text", "sentencex"), 0
    while begin < len(text):
        found = rules.segment(language, text[begin : begin + _LONGEST])
        if begin + _LONGEST < len(text) and len(found) > 1:
            found.pop()  # it may go on behind what was looked at
        begin += sum(map(len, found))
        yield from found


def split_all(paragraphs: Iterable[str], language: str) -> list[str]:
    """The sentences of several paragraphs, with one space between words."""
    return [
        " ".join(sentence.split()) for each in paragraphs for sentence in split_text(each, language)
    ]


def words_of(text: str) -> tuple[Sequence[str], str]:
    """The words of a text and what stands between them; its letters, if the language writes no
    spaces.
    """
    words = text.split()
    return (text, "") if len(text) > _LONGEST_WORD * len(words) else (words, " ")
