"""Spans of one document: an anchor, and positives near it. Anchors are long, positives short.

Giorgi et al., ACL 2021, Sec. 3.1. https://aclanthology.org/2021.acl-long.72
"""

from dataclasses import dataclass
from typing import Literal

from numpy.random import Generator

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, random_span
from isotrope.text.split import words_of
from isotrope.types import Count

# of the Beta distribution
ANCHOR = (4, 2)  # mostly long
POSITIVE = (2, 4)  # mostly short


def span_length(shortest: int, longest: int, skew: tuple[int, int], generator: Generator) -> int:
    """Words of a span: shortest + ⌊b · (longest − shortest)⌋, with b from Beta(``skew``)."""
    share = generator.beta(*skew)
    return shortest + int(share * (longest - shortest))


def near(
    anchor: slice,
    total: int,
    shortest: int,
    longest: int,
    place: str,
    generator: Generator,
) -> slice:
    """A positive's span of ``total`` words.

    "near": from the one that ends where the anchor begins, to the one that begins where it ends;
    "adjacent": one of these two; "subsumed": within the anchor.
    """
    begin = anchor.start
    end = anchor.stop
    if place == "adjacent":
        longest = min(longest, max(begin, total - end))
    elif place == "subsumed":
        longest = end - begin
    shortest = min(shortest, longest)
    length = span_length(shortest, longest, POSITIVE, generator)

    if place == "adjacent":
        last_start = total - length
        starts = [start for start in (begin - length, end) if 0 <= start <= last_start]
        start = int(generator.choice(starts))
        return slice(start, start + length)
    if place == "near":
        begin = max(0, begin - length)
        end = min(end + length, total)
    return random_span(begin, end, length, generator)


@dataclass(frozen=True)
class Spans(Lengths):
    """An anchor and its positives, from each of a document's parts, title included. BibTeX:
    giorgi2021declutr.

    Each anchor has a part of the document, at least twice as long as the longest span. A short
    document has fewer anchors or shorter spans. In languages without spaces, letters count as
    words.
    """

    stage = "pairs"
    shortest: Count = 32  # words of a span
    longest: Count = 512
    positives: Count = 2  # of each anchor
    place: Literal["near", "adjacent", "subsumed"] = "near"  # of a positive: see `near`

    @property
    def needs(self) -> str:
        return f"{2 * self.shortest} words, twice as many as the shortest span"

    def __call__(
        self, document: Document, count: int, generator: Generator
    ) -> list[tuple[str, ...]]:
        words, between = words_of(document.text)
        total = len(words)
        anchors = min(count, total // (2 * self.shortest))
        if anchors == 0:
            return []
        longest = min(self.longest, total // (2 * anchors))
        rows = []
        for number in generator.permutation(anchors).tolist():
            begin = total * number // anchors
            end = total * (number + 1) // anchors
            length = span_length(self.shortest, longest, ANCHOR, generator)
            anchor = random_span(begin, end, length, generator)
            texts = [between.join(words[anchor])]
            for _ in range(self.positives):
                span = near(anchor, total, self.shortest, longest, self.place, generator)
                texts.append(between.join(words[span]))
            rows.append(tuple(texts))
        return list(dict.fromkeys(rows))
