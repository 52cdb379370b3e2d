"""Smooth inverse frequency (Arora et al., ICLR 2017, Algorithm 1).
https://openreview.net/forum?id=SyK00v5xx
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from isotrope.encoder.word_vectors import WordVectors, source_of
from isotrope.errors import UserError
from isotrope.post.fitted import PostStep, Transform
from isotrope.text.files import lines
from isotrope.types import AboveZero, Encoder, Matrix


def read_counts(path: str | Path) -> dict[str, float]:
    """Word counts, a word and its number a line (tab or space between), words in lower case."""
    counts: dict[str, float] = defaultdict(float)
    for number, line in enumerate(lines(source_of(Path(path))), start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) < 2 or not cells[1].replace(".", "", 1).isdecimal():
            problem = f"{path}, line {number}: no word with its count"
            raise UserError(problem, "give one of each a line", code="no-count")
        word, count, *_ = cells
        counts[word.lower()] += float(count)
    return dict(counts)


def smooth_inverse_frequency(counts: Mapping[str, float], a: float) -> Callable[[str], float]:
    """The weight a / (a + p(word)) with p = count / all counts; 1 for a word without a count."""
    total = sum(counts.values()) or 1.0

    def weight(word: str) -> float:
        probability = counts.get(word.lower(), 0.0) / total
        return a / (a + probability)

    return weight


class Sif(PostStep):
    """``+sif``: word vectors weigh a / (a + p(word)), then common directions are taken away.
    BibTeX: arora2017sif.
    """

    # a file of word counts, for p; by default, words of the sentences it is fitted on count
    freq: str | None = None
    a: AboveZero = 1e-3
    # how many common directions, of the sentences that it is fitted on
    remove: int = Field(default=1, ge=0)

    def check(self) -> None:
        super().check()
        if self.freq is not None:
            read_counts(self.freq)

    def prepare(self, base: Encoder, sentences: Sequence[str]) -> None:
        """Give the words their weights."""
        assert isinstance(base, WordVectors)  # see isotrope.post.names.check_name
        counts = self._counted(base, sentences) if self.freq is None else read_counts(self.freq)
        base.weight = smooth_inverse_frequency(counts, self.a)

    @staticmethod
    def _counted(base: WordVectors, sentences: Sequence[str]) -> Mapping[str, float]:
        """How often each word occurs in the sentences."""
        base.look_up(sentences)
        counter = Counter[str]()
        for sentence in sentences:
            counter.update(word.lower() for word in base.words(sentence))
        return counter

    def fitted(self, vectors: Matrix) -> Transform:
        # The right singular vectors; nothing is centred.
        _, directions = np.linalg.eigh(vectors.T @ vectors)  # by rising singular value
        falling = directions[:, ::-1]
        common = falling[:, : self.remove]  # (D, k)
        return lambda x: x - x @ common @ common.T
