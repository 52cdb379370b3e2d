"""Pseudo-queries: what somebody might ask whom a document answers, taken from the document itself.

Lee et al., 2019 (inverse cloze task), https://arxiv.org/abs/1906.00300, draw sentences. A mixture
is better than each kind alone (docs/log.md).
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, default_rng

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import random_span
from isotrope.text.split import words_of

TITLE = "title"
HEADING = "heading"
SPAN = "span"
SENTENCE = "sentence"
QUESTION = "question"
KINDS = (TITLE, HEADING, SPAN, SENTENCE, QUESTION)
MIXTURE = (TITLE, HEADING, SPAN, QUESTION)
_SPANS = 2  # of a document
_SHORTEST_SPAN = 8  # words
_LONGEST_SPAN = 19
_LONGEST_SENTENCE = 40  # words; questions too
_LONGEST_HEADING = 8
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
        order = default_rng(seed).permutation(len(self.texts))
        return self.part(sorted(order[:count].tolist()))

    def part(self, rows: Iterable[int]) -> "PseudoQueries":
        """Those of these rows."""
        part = PseudoQueries()
        for row in rows:
            part.texts.append(self.texts[row])
            part.documents.append(self.documents[row])
            part.kinds.append(self.kinds[row])
        return part


def pseudo_queries(
    documents: Iterable[Document], kinds: Iterable[str] = MIXTURE, seed: int = 0
) -> PseudoQueries:
    """The pseudo-queries of documents. Equal documents, kinds and seeds give equal ones.

    - title: that of a document with a body
    - heading: a short paragraph without a full stop before a longer one
    - span: 8 to 19 words from any place, at most half of a short text; two a document
    - sentence: a whole one
    - question: one that the document asks, as a page of frequent questions does
    """
    kinds = set(kinds)
    queries = PseudoQueries()
    for number, document in enumerate(documents):
        kind_of_text: dict[str, str] = {}  # the first kind that gives a text
        for kind, text in _queries_of(document, seed):
            if kind in kinds and text:
                kind_of_text.setdefault(text, kind)
        queries.texts.extend(kind_of_text)
        queries.documents.extend([number] * len(kind_of_text))
        queries.kinds.extend(kind_of_text.values())
    return queries


def _queries_of(document: Document, seed: int) -> Iterator[tuple[str, str]]:
    """Kind and text of all that a document gives."""
    body = " ".join(document.paragraphs)
    checksum = zlib.crc32(document.text.encode())
    generator = default_rng([seed, checksum])
    if body and document.title and document.title != body:
        yield TITLE, document.title
    for heading in _headings(document):
        yield HEADING, heading
    words, between = words_of(body or document.title)
    for _ in range(_SPANS):
        span = _random_span(words, generator)
        yield SPAN, between.join(span)
    sentences = _sentences(document)
    if len(sentences) > 1:
        for sentence in sentences:
            if sentence.endswith(("?", "？")):
                yield QUESTION, sentence
        number = int(generator.integers(len(sentences)))
        yield SENTENCE, sentences[number]


def _headings(document: Document) -> Iterator[str]:
    """Short paragraphs before longer ones."""
    for paragraph, next_paragraph in pairwise(document.paragraphs):
        words = len(paragraph.split())
        next_words = len(next_paragraph.split())
        is_short = words <= _LONGEST_HEADING < next_words
        if is_short and not paragraph.endswith((".", "!", ";", ",")):
            yield paragraph.rstrip(":")


def _random_span(words: Sequence[str], generator: Generator) -> Sequence[str]:
    """Some words in a row; at most half of a short text."""
    longest = _LONGEST_SPAN
    if len(words) < 2 * _SHORTEST_SPAN:
        longest = max(1, len(words) // 2)
    shortest = min(_SHORTEST_SPAN, longest)
    length = int(generator.integers(shortest, longest + 1))
    end = max(length, len(words))  # there may be no words
    return words[random_span(0, end, length, generator)]


def _sentences(document: Document) -> list[str]:
    """The sentences of all paragraphs, cut to `_LONGEST_SENTENCE` words."""
    sentences = []
    for paragraph in document.paragraphs:
        for sentence in _SENTENCE_END.split(paragraph):
            words, between = words_of(sentence)
            sentences.append(between.join(words[:_LONGEST_SENTENCE]))
    return sentences
