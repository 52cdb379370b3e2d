"""Two crops of one document: spans of words at random places.

As contrastive pairs: Contriever (Izacard et al., TMLR 2022, Sec. 3.1),
https://arxiv.org/abs/2112.09118.
"""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, TextPair, distinct
from isotrope.text.split import words_of
from isotrope.types import Count


def two_spans(
    count: int, shortest: int, longest: int, overlap: bool, generator: np.random.Generator
) -> tuple[slice, slice]:
    """Two spans of ``count`` places, each of ``shortest`` to ``longest`` places, lengths and places
    drawn uniformly.

    They may be equal where they may overlap. Without overlap, ``count`` is at least twice
    ``shortest``, and lengths that do not fit together are cut.
    """
    a, b = (
        int(length) for length in np.minimum(generator.integers(shortest, longest + 1, 2), count)
    )
    if overlap:
        begins = [int(generator.integers(count - length + 1)) for length in (a, b)]
        return slice(begins[0], begins[0] + a), slice(begins[1], begins[1] + b)
    a = min(a, count - shortest)
    b = min(b, count - a)
    # places left free: before, and up to b
    before, between = np.sort(generator.integers(count - a - b + 1, size=2))
    first, second = (
        slice(int(before), int(before) + a),
        slice(int(between) + a, int(between) + a + b),
    )
    return (first, second) if generator.random() < 0.5 else (second, first)


@dataclass(frozen=True)
class Crops(Lengths):
    """Two crops of a document, title included. In languages without spaces, letters count as words.

    A document needs one word more than ``shortest``; without overlap, twice as many. BibTeX:
    izacard2022contriever.
    """

    stage = "pairs"
    shortest: Count = 8  # words of a crop
    longest: Count = 24
    overlap: bool = True  # whether the two may share words

    @property
    def needs(self) -> str:
        return f"{self._fewest} words for two crops of {self.shortest} words or more"

    @property
    def _fewest(self) -> int:
        return self.shortest + 1 if self.overlap else 2 * self.shortest

    def __call__(
        self, document: Document, count: int, generator: np.random.Generator
    ) -> list[TextPair]:
        words, between = words_of(document.text)
        if len(words) < self._fewest:
            return []

        def draw() -> TextPair | None:
            spans = two_spans(len(words), self.shortest, self.longest, self.overlap, generator)
            anchor, positive = (between.join(words[span]) for span in spans)
            return (anchor, positive) if anchor != positive else None

        return distinct(draw, count)
