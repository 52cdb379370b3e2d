"""The title of a document and its body, or a crop of it.

As positives for training without labels: E5 (Wang et al., 2022, Sec. 3.1), https://arxiv.org/abs/2212.03533.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.document_rows import Document
from isotrope.text.pair_corpus import TextPair, check_lengths
from isotrope.text.pairs.crops import TRIES, crop
from isotrope.text.words import words_of
from isotrope.types import Count


@dataclass(frozen=True)
class TitleBody:
    """The title finds its body. Documents without a title, or without a body, give no pair. BibTeX: wang2022e5.

    Attributes:
        shortest: fewest words of a crop of the body; a shorter body is taken whole.
        longest: most words of a crop.
        whole: pair the title with the whole body, as far as the model reads it. Each document then has one pair.
    """

    stage = "pairs"
    shortest: Count = 16
    longest: Count = 48
    whole: bool = False

    def __post_init__(self) -> None:
        check_lengths("title_body", self.shortest, self.longest)

    @property
    def needs(self) -> str:
        """What a document must have."""
        return "a title and a body"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[TextPair]:
        body = " ".join(document.paragraphs)
        if not document.title or not body or body == document.title:
            return []
        if self.whole:
            return [(document.title, body)]
        words, between = words_of(body)
        found: dict[TextPair, None] = {}  # a set with an order
        for _ in range(TRIES * count):
            found[document.title, between.join(crop(words, self.shortest, self.longest, generator))] = None
            if len(found) == count:
                break
        return list(found)
