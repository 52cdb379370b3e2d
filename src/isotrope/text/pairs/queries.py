"""What users may ask: titles, headings, spans, sentences and questions of a document (`isotrope.text.pseudo_queries`).

They are texts, and no pairs: for a student that reads queries only.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pseudo_queries import KINDS, pseudo_queries
from isotrope.text.split import words_of
from isotrope.types import Count

_DRAWS = 3  # each has two spans and a sentence


@dataclass(frozen=True)
class Queries:
    """Pseudo-queries of a document, in random order; a short text is a query itself.

    Attributes:
        whole: fewer words than these are a short text.
    """

    stage = "pairs"
    single = True
    needs = "a text"
    whole: Count = 20

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[tuple[str]]:
        if len(words_of(document.text)[0]) < self.whole:
            return [(document.text,)] if document.text else []
        seeds = generator.integers(2**31, size=_DRAWS).tolist()
        texts = list(dict.fromkeys(text for seed in seeds for text in pseudo_queries([document], KINDS, seed).texts))
        return [(texts[place],) for place in generator.permutation(len(texts))[:count].tolist()]
