"""Pairs of sentences or paragraphs of one document.

A pair is a unit with the next one, or a sentence with itself.

As positives: DeCLUTR (Giorgi et al., ACL 2021, Sec. 3.1) takes adjacent spans among others,
https://aclanthology.org/2021.acl-long.72; SimCSE (Gao et al., EMNLP 2021, Sec. 3),
https://arxiv.org/abs/2104.08821, takes the sentence once more.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from numpy.random import Generator

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import TextPair, shuffled
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count


@dataclass(frozen=True)
class Neighbours:
    """Neighbouring sentences or paragraphs; the order in a pair is drawn. BibTeX:
    giorgi2021declutr.

    Sentences may be neighbours across the end of a paragraph.
    """

    stage = "pairs"
    unit: Literal["sentence", "paragraph"] = "sentence"
    shortest: Count = 5  # words; shorter parts (headings, list items) are passed over
    language: Language = ENGLISH  # whose rules split into sentences, as a two-letter code

    @property
    def needs(self) -> str:
        return f"two neighbouring {self.unit}s of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: Generator) -> list[TextPair]:
        units = document.paragraphs
        if self.unit == "sentence":
            units = split_all(units, self.language)
        units = _not_shorter(units, self.shortest)
        neighbours = [(first, second) for first, second in pairwise(units) if first != second]

        pairs = []
        for first, second in shuffled(neighbours, count, generator):
            in_order = generator.random() < 0.5
            pairs.append((first, second) if in_order else (second, first))
        return pairs


def _not_shorter(texts: list[str], shortest: int) -> list[str]:
    """Those of ``shortest`` words or more."""
    return [text for text in texts if len(words_of(text)[0]) >= shortest]


@dataclass(frozen=True)
class Sentence:
    """A sentence with itself: only dropout makes the two differ. BibTeX: gao2021simcse."""

    stage = "pairs"
    shortest: Count = 3  # words; shorter sentences (headings, list items) are passed over
    language: Language = ENGLISH  # whose rules split into sentences, as a two-letter code

    @property
    def needs(self) -> str:
        return f"a sentence of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: Generator) -> list[TextPair]:
        sentences = split_all(document.paragraphs, self.language)
        sentences = _not_shorter(sentences, self.shortest)
        distinct = list(dict.fromkeys(sentences))
        return [(sentence, sentence) for sentence in shuffled(distinct, count, generator)]
