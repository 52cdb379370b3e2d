"""Two neighbouring sentences or paragraphs of one document.

As positives: DeCLUTR (Giorgi et al., ACL 2021, Sec. 3.1) takes adjacent spans among others,
https://aclanthology.org/2021.acl-long.72.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from isotrope.text.document_rows import Document
from isotrope.text.pair_corpus import TextPair, check_language
from isotrope.text.split import ENGLISH, split_text
from isotrope.text.words import words_of
from isotrope.types import Count


def neighbour_pairs(parts: list[str]) -> list[TextPair]:
    """Each part with the next one, but for those that are equal."""
    return [(one, other) for one, other in pairwise(parts) if one != other]


@dataclass(frozen=True)
class Neighbours:
    """Neighbouring sentences or paragraphs; the order in a pair is drawn. BibTeX: giorgi2021declutr.

    Sentences may be neighbours across the end of a paragraph.

    Attributes:
        unit: what is paired.
        shortest: fewest words; shorter parts (headings, list items) are passed over.
        language: whose rules split into sentences, as a two-letter code.

    Raises:
        UserError: ``language`` is no such code.
    """

    stage = "pairs"
    unit: Literal["sentence", "paragraph"] = "sentence"
    shortest: Count = 5
    language: str = ENGLISH

    def __post_init__(self) -> None:
        check_language("neighbours", self.language)

    @property
    def needs(self) -> str:
        """What a document must have."""
        return f"two neighbouring {self.unit}s of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[TextPair]:
        parts = document.paragraphs
        if self.unit == "sentence":
            parts = [" ".join(each.split()) for part in parts for each in split_text(part, self.language)]
        pairs = neighbour_pairs([part for part in parts if len(words_of(part)[0]) >= self.shortest])
        drawn = generator.permutation(len(pairs))[:count].tolist()
        return [pairs[at] if generator.random() < 0.5 else pairs[at][::-1] for at in drawn]
