"""A sentence of one document, and the same sentence once more.

As positives: SimCSE (Gao et al., EMNLP 2021, Sec. 3), https://arxiv.org/abs/2104.08821.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import TextPair
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count


@dataclass(frozen=True)
class Sentence:
    """A sentence with itself: only dropout makes the two differ. BibTeX: gao2021simcse.

    Attributes:
        shortest: fewest words; shorter sentences (headings, list items) are passed over.
        language: whose rules split into sentences, as a two-letter code.
    """

    stage = "pairs"
    shortest: Count = 3
    language: Language = ENGLISH

    @property
    def needs(self) -> str:
        return f"a sentence of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[TextPair]:
        sentences = split_all(document.paragraphs, self.language)
        long = list(dict.fromkeys(one for one in sentences if len(words_of(one)[0]) >= self.shortest))
        return [(long[at], long[at]) for at in generator.permutation(len(long))[:count].tolist()]
