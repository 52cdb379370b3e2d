"""Single texts of a document, and no pairs: for a student that follows a teacher.

Passages are whole sentences in a row, from a single one to some two hundred words, for a student
that has to read sentences as well as paragraphs. Queries are what users may ask, for a student that
reads queries only.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, distinct
from isotrope.text.pseudo_queries import KINDS, pseudo_queries
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count

_TRIES = 4  # for a passage that was not drawn before
_DRAWS = 3  # of pseudo-queries; each has two spans and a sentence


def passage(sentences: list[str], begin: int, wanted: int, longest: int) -> tuple[str, int]:
    """The sentences from ``begin`` on until there are as many words as ``wanted``, and how many
    words these are.

    Only the first sentence may lead beyond ``longest`` words.
    """
    end, words = begin, 0
    while end < len(sentences) and words < wanted:
        count = len(words_of(sentences[end])[0])
        if end > begin and words + count > longest:
            break
        end, words = end + 1, words + count
    return " ".join(sentences[begin:end]), words


@dataclass(frozen=True)
class Passages(Lengths):
    """Passages of all lengths; the title counts as the first sentence.

    The logarithm of the wanted length is drawn evenly between those of ``shortest`` and
    ``longest``, so short passages are as frequent as long ones.
    """

    stage = "pairs"
    single = True
    shortest: Count = 5  # words of a passage
    longest: Count = 180  # a single sentence may be longer
    language: Language = ENGLISH  # whose rules split into sentences, as a two-letter code

    @property
    def needs(self) -> str:
        return f"a passage of at least {self.shortest} words"

    def __call__(
        self, document: Document, count: int, generator: np.random.Generator
    ) -> list[tuple[str]]:
        parts = [document.title, *document.paragraphs] if document.title else document.paragraphs
        sentences = split_all(parts, self.language)

        def draw() -> tuple[str] | None:
            wanted = self.shortest * (self.longest / self.shortest) ** generator.random()
            text, words = passage(
                sentences, int(generator.integers(len(sentences))), round(wanted), self.longest
            )
            return (text,) if words >= self.shortest else None

        return distinct(draw, count, _TRIES) if sentences else []


@dataclass(frozen=True)
class Queries:
    """Titles, headings, spans, sentences and questions (`isotrope.text.pseudo_queries`), in random
    order.
    """

    stage = "pairs"
    single = True
    needs = "a text"
    whole: Count = 20  # a text of fewer words is a query itself

    def __call__(
        self, document: Document, count: int, generator: np.random.Generator
    ) -> list[tuple[str]]:
        if len(words_of(document.text)[0]) < self.whole:
            return [(document.text,)] if document.text else []
        seeds = generator.integers(2**31, size=_DRAWS).tolist()
        texts = list(
            dict.fromkeys(
                text for seed in seeds for text in pseudo_queries([document], KINDS, seed).texts
            )
        )
        return [(texts[place],) for place in generator.permutation(len(texts))[:count].tolist()]
