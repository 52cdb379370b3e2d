"""Smooth inverse frequency: in the mean of a sentence's word vectors, rare words weigh more.

Arora et al., A Simple but Tough-to-Beat Baseline for Sentence Embeddings, ICLR 2017, Algorithm 1,
https://openreview.net/forum?id=SyK00v5xx.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from isotrope.encoder.prompts import Role
from isotrope.encoder.word_vectors import WordVectors, source_of
from isotrope.errors import UserError
from isotrope.post.fitted import TARGET, FittedEncoder, PostStep, Transform
from isotrope.text.files import lines
from isotrope.types import AboveZero, Encoder, Matrix

WordVector = npt.NDArray[np.float32]  # (D,), or rows (N, D)


def read_counts(path: str | Path) -> dict[str, float]:
    """Word counts, a word and its number a line (tab or space between), words in lower case."""
    counts: dict[str, float] = {}
    for number, line in enumerate(lines(source_of(Path(path))), start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) < 2 or not cells[1].replace(".", "", 1).isdecimal():
            raise UserError(f"{path}, line {number}: no word with its count", "give one of each a line")
        counts[cells[0].lower()] = counts.get(cells[0].lower(), 0.0) + float(cells[1])
    return counts


def smooth_inverse_frequency(counts: Mapping[str, float], a: float) -> Callable[[str], float]:
    """The weight a / (a + p(word)) with p = count / all counts; 1 for a word without a count."""
    total = sum(counts.values()) or 1.0
    return lambda word: a / (a + counts.get(word.lower(), 0.0) / total)


class Sif(PostStep):
    """``+sif``: weights a / (a + p(word)), then the common directions taken away. BibTeX: arora2017sif."""

    freq: str | None = None  # a file of word counts, for p; by default, words of the sentences it is fitted on count
    a: AboveZero = 1e-3
    remove: int = Field(default=1, ge=0)  # how many common directions, of the sentences that it is fitted on

    def behind(self, base: Encoder) -> FittedEncoder:
        assert isinstance(base, WordVectors)  # see isotrope.post.names.check_name
        return _SifEncoder(base, self)

    def fitted(self, vectors: Matrix) -> Transform:
        directions = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1]  # right singular vectors; nothing is centred
        common = directions[:, : self.remove]  # (D, k)
        return lambda x: x - x @ common @ common.T


class _SifEncoder(FittedEncoder):
    """Takes its words' weights before its vectors."""

    def __init__(self, base: WordVectors, step: Sif) -> None:
        super().__init__(base, step)
        self._words, self._sif = base, step
        if step.freq is not None:
            base.weight = smooth_inverse_frequency(read_counts(step.freq), step.a)

    def fit(self, sentences: Sequence[str]) -> Self:
        self._count(sentences)
        return super().fit(sentences)

    def encode(self, sentences: list[str], role: Role | None = None) -> WordVector:
        if self._transform is None and self._sif.fit == TARGET:
            self._count(list(dict.fromkeys(sentences)))
        return super().encode(sentences, role)

    def _count(self, sentences: Sequence[str]) -> None:
        if self._sif.freq is None:
            self._words.look_up(sentences)
            counts = Counter(word.lower() for sentence in sentences for word in self._words.words(sentence))
            self._words.weight = smooth_inverse_frequency(counts, self._sif.a)
