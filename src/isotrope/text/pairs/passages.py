"""Passages of a document: whole sentences in a row, from a single one to some two hundred words.

They are texts, and no pairs: for a student that follows a teacher, and has to read sentences as well as paragraphs.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, distinct
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count

_TRIES = 4  # for a passage that was not drawn before


def passage(sentences: list[str], begin: int, wanted: int, longest: int) -> tuple[str, int]:
    """The sentences from ``begin`` on until there are as many words as ``wanted``, and how many words these are.

    The first sentence is taken whole. A further one is left out where it leads beyond ``longest`` words.
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

    The logarithm of the wanted length is drawn evenly between those of ``shortest`` and ``longest``, so short passages
    are as frequent as long ones.

    Attributes:
        shortest: fewest words of a passage.
        longest: most words; a single sentence may be longer.
        language: whose rules split into sentences, as a two-letter code.
    """

    stage = "pairs"
    single = True
    shortest: Count = 5
    longest: Count = 180
    language: Language = ENGLISH

    @property
    def needs(self) -> str:
        return f"a passage of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[tuple[str]]:
        parts = [document.title, *document.paragraphs] if document.title else document.paragraphs
        sentences = split_all(parts, self.language)

        def draw() -> tuple[str] | None:
            wanted = self.shortest * (self.longest / self.shortest) ** generator.random()
            text, words = passage(sentences, int(generator.integers(len(sentences))), round(wanted), self.longest)
            return (text,) if words >= self.shortest else None

        return distinct(draw, count, _TRIES) if sentences else []
