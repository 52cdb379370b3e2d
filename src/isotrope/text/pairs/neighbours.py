"""Two neighbouring sentences or paragraphs of one document.

As positives: DeCLUTR (Giorgi et al., ACL 2021, Sec. 3.1) takes adjacent spans among others,
https://aclanthology.org/2021.acl-long.72.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import TextPair
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count


@dataclass(frozen=True)
class Neighbours:
    """Neighbouring sentences or paragraphs; the order in a pair is drawn. BibTeX: giorgi2021declutr.

    Sentences may be neighbours across the end of a paragraph.

    Attributes:
        unit: what is paired.
        shortest: fewest words; shorter parts (headings, list items) are passed over.
        language: whose rules split into sentences, as a two-letter code.
    """

    stage = "pairs"
    unit: Literal["sentence", "paragraph"] = "sentence"
    shortest: Count = 5
    language: Language = ENGLISH

    @property
    def needs(self) -> str:
        return f"two neighbouring {self.unit}s of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: np.random.Generator) -> list[TextPair]:
        parts = document.paragraphs
        if self.unit == "sentence":
            parts = split_all(parts, self.language)
        parts = [part for part in parts if len(words_of(part)[0]) >= self.shortest]
        pairs = [(one, other) for one, other in pairwise(parts) if one != other]
        drawn = generator.permutation(len(pairs))[:count].tolist()
        return [pairs[at] if generator.random() < 0.5 else pairs[at][::-1] for at in drawn]
