"""Single texts of a document, and no pairs: for a student that follows a teacher.

Passages are whole sentences in a row, from a single one to some two hundred words, for a student
that has to read sentences as well as paragraphs. Queries are what users may ask, for a student that
reads queries only.
"""

from dataclasses import dataclass

from numpy.random import Generator

from isotrope.text.corpus import Document
from isotrope.text.pair_corpus import Lengths, distinct, shuffled
from isotrope.text.pseudo_queries import KINDS, pseudo_queries
from isotrope.text.split import ENGLISH, Language, split_all, words_of
from isotrope.types import Count

_TRIES = 4  # for a passage that was not drawn before
_DRAWS = 3  # of pseudo-queries; each has two spans and a sentence


def passage(sentences: list[str], begin: int, words: int, longest: int) -> tuple[str, int]:
    """The sentences from ``begin`` on that have about ``words`` words, and how many they have.

    Only the first sentence may lead beyond ``longest`` words.
    """
    taken: list[str] = []
    taken_words = 0
    for sentence in sentences[begin:]:
        count = len(words_of(sentence)[0])
        is_too_long = taken and taken_words + count > longest
        if taken_words >= words or is_too_long:
            break
        taken.append(sentence)
        taken_words += count
    return " ".join(taken), taken_words


@dataclass(frozen=True)
class Passages(Lengths):
    """Passages of all lengths; the title counts as the first sentence.

    The logarithm of the wanted length is drawn evenly between those of ``shortest`` and
    ``longest``, so short passages are as frequent as long ones.
    """

    stage = "pairs"
    single = True
    shortest: Count = 5  # words of a passage
    longest: Count = 180  # a single sentence may be longer
    language: Language = ENGLISH  # whose rules split into sentences, as a two-letter code

    @property
    def needs(self) -> str:
        return f"a passage of at least {self.shortest} words"

    def __call__(self, document: Document, count: int, generator: Generator) -> list[tuple[str]]:
        sentences = split_all(document.blocks, self.language)
        if not sentences:
            return []

        def draw() -> tuple[str] | None:
            ratio = (self.longest / self.shortest) ** generator.random()
            wanted = round(self.shortest * ratio)
            begin = int(generator.integers(len(sentences)))
            text, words = passage(sentences, begin, wanted, self.longest)
            return (text,) if words >= self.shortest else None

        return distinct(draw, count, _TRIES)


@dataclass(frozen=True)
class Queries:
    """Titles, headings, spans, sentences and questions (`isotrope.text.pseudo_queries`), in random
    order.
    """

    stage = "pairs"
    single = True
    needs = "a text"
    whole: Count = 20  # a text of fewer words is a query itself

    def __call__(self, document: Document, count: int, generator: Generator) -> list[tuple[str]]:
        words, _ = words_of(document.text)
        if len(words) < self.whole:
            return [(document.text,)] if document.text else []
        queries = []
        for seed in generator.integers(2**31, size=_DRAWS).tolist():
            queries += pseudo_queries([document], KINDS, seed).texts
        distinct_queries = list(dict.fromkeys(queries))
        return [(query,) for query in shuffled(distinct_queries, count, generator)]
