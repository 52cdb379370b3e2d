"""Pseudo-queries: what somebody might ask whom a document answers, taken from the document itself.

Lee et al., 2019 (inverse cloze task), https://arxiv.org/abs/1906.00300, draw sentences. A mixture
is better than each kind alone (docs/log.md).
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from isotrope.text.corpus import Document
from isotrope.text.split import words_of

TITLE, HEADING, SPAN, SENTENCE, QUESTION = "title", "heading", "span", "sentence", "question"
KINDS = (TITLE, HEADING, SPAN, SENTENCE, QUESTION)
MIXTURE = (TITLE, HEADING, SPAN, QUESTION)
_SPANS = 2  # of a document
_SHORTEST_SPAN, _LONGEST_SPAN = 8, 19  # words
_LONGEST = 40  # words of a sentence or of a question
_HEADING = 8  # words of one at most
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class PseudoQueries:
    """Queries (Q,), the number of the document that each comes from, and which of `KINDS` it is."""

    texts: list[str] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    @property
    def own(self) -> npt.NDArray[np.int64]:
        """`documents` as an array."""
        return np.array(self.documents, dtype=np.int64)

    def sample(self, count: int, seed: int) -> "PseudoQueries":
        """At most ``count`` of them, drawn at random, in their order."""
        return self.part(
            sorted(np.random.default_rng(seed).permutation(len(self.texts))[:count].tolist())
        )

    def part(self, rows: Iterable[int]) -> "PseudoQueries":
        """Those of these rows."""
        found = [(self.texts[row], self.documents[row], self.kinds[row]) for row in rows]
        return PseudoQueries(*map(list, zip(*found, strict=True)))


def pseudo_queries(
    documents: Iterable[Document], kinds: Iterable[str] = MIXTURE, seed: int = 0
) -> PseudoQueries:
    """The pseudo-queries of documents. Equal documents, kinds and seeds give equal ones.

    Title: that of a document with a body. Heading: a short paragraph without a full stop before a
    longer one. Span: 8 to 19 words from any place, at most half of a short text; two a document.
    Sentence: a whole one. Question: one that the document asks, as a page of frequent questions
    does.
    """
    wanted, found = set(kinds), PseudoQueries()
    for number, document in enumerate(documents):
        known = dict[str, str]()  # text -> the first kind that gives it
        for kind, text in _of(document, seed):
            if kind in wanted and text:
                known.setdefault(text, kind)
        found.texts.extend(known)
        found.documents.extend([number] * len(known))
        found.kinds.extend(known.values())
    return found


def _of(document: Document, seed: int) -> Iterator[tuple[str, str]]:
    """Kind and text of all that a document gives."""
    body = " ".join(document.paragraphs)
    generator = np.random.default_rng([seed, zlib.crc32(document.text.encode())])
    if body and document.title and document.title != body:
        yield TITLE, document.title
    for before, after in pairwise(document.paragraphs):
        if len(before.split()) <= _HEADING < len(after.split()) and not before.endswith(
            (".", "!", ";", ",")
        ):
            yield HEADING, before.rstrip(":")
    words, between = words_of(body or document.title)
    for _ in range(_SPANS):
        longest = max(1, len(words) // 2) if len(words) < 2 * _SHORTEST_SPAN else _LONGEST_SPAN
        length = int(generator.integers(min(_SHORTEST_SPAN, longest), longest + 1))
        begin = int(generator.integers(0, max(1, len(words) - length + 1)))
        yield SPAN, between.join(words[begin : begin + length])
    split = (
        words_of(one) for paragraph in document.paragraphs for one in _SENTENCE_END.split(paragraph)
    )
    sentences = [between.join(words[:_LONGEST]) for words, between in split]
    if len(sentences) > 1:
        yield from ((QUESTION, one) for one in sentences if one.endswith(("?", "？")))
        yield SENTENCE, sentences[int(generator.integers(len(sentences)))]
