"""Two crops of one document: spans of words at random places.

As contrastive pairs: Contriever (Izacard et al., TMLR 2022, Sec. 3.1),
https://arxiv.org/abs/2112.09118.
"""

from dataclasses import dataclass

from numpy.random import Generator

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, TextPair, distinct, random_span
from isotrope.text.split import words_of
from isotrope.types import Count


def two_spans(
    count: int, shortest: int, longest: int, overlap: bool, generator: Generator
) -> tuple[slice, slice]:
    """Two spans of ``count`` places; lengths and places are drawn uniformly.

    A span has ``shortest`` to ``longest`` places. They may be equal where they may overlap. Without
    overlap, ``count`` is at least twice ``shortest``, and lengths that do not fit together are cut.
    """
    lengths = generator.integers(shortest, longest + 1, 2).clip(max=count)
    first_length, second_length = lengths.tolist()
    if overlap:
        first = random_span(0, count, first_length, generator)
        second = random_span(0, count, second_length, generator)
        return first, second

    first_length = min(first_length, count - shortest)
    second_length = min(second_length, count - first_length)
    # Free places before the first span, and up to the second one.
    free = count - first_length - second_length
    before, up_to_second = sorted(generator.integers(free + 1, size=2).tolist())
    first = slice(before, before + first_length)
    second_begin = up_to_second + first_length
    second = slice(second_begin, second_begin + second_length)
    if generator.random() < 0.5:
        return first, second
    return second, first


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

    def __call__(self, document: Document, count: int, generator: Generator) -> list[TextPair]:
        words, between = words_of(document.text)
        if len(words) < self._fewest:
            return []

        def draw() -> TextPair | None:
            first, second = two_spans(
                len(words), self.shortest, self.longest, self.overlap, generator
            )
            anchor = between.join(words[first])
            positive = between.join(words[second])
            return (anchor, positive) if anchor != positive else None

        return distinct(draw, count)
