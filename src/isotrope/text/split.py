"""Texts to sentences, by the rules of `sentencex`, for some 300 languages; and sentences to
words.
"""

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
_WINDOW = 10_000


def language_of(split: str) -> str:
    """The language that ``split`` asks for.

    "sentences" are the rules of English, "sentences:de" those of German. UserError for others.
    """
    name, colon, language = split.partition(":")
    is_language = not colon or re.fullmatch(_CODE, language)
    if name != "sentences" or not is_language:
        raise UserError(
            f"split = {split!r} is unknown",
            "choose sentences, or sentences:LANGUAGE with a two-letter code, such as sentences:de",
            "unknown-split",
        )
    return language or ENGLISH


def split_text(text: str, language: str = ENGLISH) -> Iterator[str]:
    """The sentences of a text, in order.

    An empty line ends a sentence too; a single line end does not. A text that is not sound Unicode,
    or holds no sentence, comes back whole: cleaning counts it.
    """
    is_sound = printable(text) == text
    paragraphs = re.split(r"\n\s*\n", text) if is_sound else []
    sentences: list[str] = []
    for paragraph in paragraphs:
        words = paragraph.split()
        sentences.extend(_segment(" ".join(words), language))
    yield from sentences or [text]


def _segment(text: str, language: str) -> Iterator[str]:
    rules = needs("text", "sentencex")
    begin = 0
    while begin < len(text):
        end = begin + _WINDOW
        sentences = rules.segment(language, text[begin:end])
        goes_on = end < len(text)
        if goes_on and len(sentences) > 1:
            sentences.pop()  # it may go on after the window
        begin += sum(map(len, sentences))
        yield from sentences


def split_all(paragraphs: Iterable[str], language: str) -> list[str]:
    """The sentences of several paragraphs, with one space between words."""
    sentences = []
    for paragraph in paragraphs:
        for sentence in split_text(paragraph, language):
            sentences.append(" ".join(sentence.split()))
    return sentences


def words_of(text: str) -> tuple[Sequence[str], str]:
    """The words of a text and what is between them: a space.

    If the language writes no spaces, they are its letters, and nothing is between them.
    """
    words = text.split()
    has_spaces = len(text) <= _LONGEST_WORD * len(words)
    if has_spaces:
        return words, " "
    return text, ""
