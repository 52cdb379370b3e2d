"""The title of a document and its body, or a crop of it.

As positives for training without labels: E5 (Wang et al., 2022, Sec. 3.1),
https://arxiv.org/abs/2212.03533.
"""

from dataclasses import dataclass

from numpy.random import Generator

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, TextPair, distinct, random_span
from isotrope.text.split import words_of
from isotrope.types import Count


@dataclass(frozen=True)
class TitleBody(Lengths):
    """The title finds its body. Documents without a title, or without a body, give no pair. BibTeX:
    wang2022e5.
    """

    stage = "pairs"
    needs = "a title and a body"
    shortest: Count = 16  # words of a crop of the body; a shorter body is taken whole
    longest: Count = 48
    # pair the title with the whole body, as far as the model reads it: one pair of a document
    whole: bool = False

    def __call__(self, document: Document, count: int, generator: Generator) -> list[TextPair]:
        body = " ".join(document.paragraphs)
        title = document.title
        if not title or not body or body == title:
            return []
        if self.whole:
            return [(title, body)]
        words, between = words_of(body)

        def draw() -> TextPair:
            length = int(generator.integers(self.shortest, self.longest + 1))
            length = min(length, len(words))
            span = random_span(0, len(words), length, generator)
            return title, between.join(words[span])

        return distinct(draw, count)
