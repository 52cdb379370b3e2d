"""Tasks made from the text alone: does a model find the rest of a text by a part of it?

They compare two models where nobody has labels. From each text two tasks are made: its first half must find its second
half, and a span of it must find what is left. The measure is MRR@10 among the other texts of the same collection.

They see large harm, such as full whitening of a model that was trained on labels. They miss smaller harm: they
preferred centring where labels show a loss (docs/whiten.md). So "worse" is a reason to keep the old model, and "better"
is no proof that the new one is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.retrieval import CUTOFF, rank_corpus, reciprocal_rank, shares_behind
from isotrope.evaluation.significance import Comparison, compare_means
from isotrope.text.permutation import evenly
from isotrope.text.words import words_of
from isotrope.types import Encoder, Vector

FEWEST_WORDS = 12  # of a text: each half then has six
FEWEST_TEXTS = 50  # with fewer, only a change of many points shows
MOST_TEXTS = 700  # more texts cost time and narrow the interval little
SPAN = 0.3  # of the words of a text
NEAR = 0.5  # two texts with so large a share of common word triples (Jaccard) are near-duplicates
OFTEN = 0.05  # of the texts: a word triple that so many have is frequent


@dataclass(frozen=True, slots=True)
class SelfMadeTask:
    """Q queries, each with one answer among M candidates. Several queries may have the same answer.

    With ``all_places`` every place counts, not the first ten alone. Parts of a short text say so little that the answer
    is rarely among the first ten, also with a good model.
    """

    name: str
    queries: list[str]  # (Q,)
    candidates: list[str]  # (M,)
    answers: npt.NDArray[np.int64]  # (Q,) which candidate is the answer
    all_places: bool = False

    @property
    def texts(self) -> list[str]:
        """All that is encoded."""
        return [*self.queries, *self.candidates]

    @property
    def size(self) -> int:
        """A: how many candidates are an answer."""
        return len(np.unique(self.answers))

    def part(self, count: int) -> SelfMadeTask:
        """At most ``count`` of the answers, evenly spread, with all their queries, as the only candidates."""
        answers = np.unique(self.answers)
        kept = answers[evenly(len(answers), count)]
        rows = np.flatnonzero(np.isin(self.answers, kept))
        queries, candidates = [self.queries[row] for row in rows], [self.candidates[answer] for answer in kept]
        return SelfMadeTask(self.name, queries, candidates, np.searchsorted(kept, self.answers[rows]), self.all_places)

    def score(self, encoder: Encoder) -> Vector:
        """1 / place of a query's answer by cosine, 0 beyond the tenth place; the mean over each answer's queries: (A,).

        Where each answer has one query, their mean is MRR@10.
        With ``all_places``, the share of the other candidates that come behind the answer: 0.5 is chance.

        Raises:
            UserError: the encoder gives no usable vectors.
        """
        embedded = Embedded(encoder, self.texts)
        shape = len(self.queries), len(self.candidates)
        grades = csr_array((np.ones(shape[0]), (np.arange(shape[0]), self.answers)), shape=shape)
        if self.all_places:
            scores = shares_behind(embedded(self.queries), embedded(self.candidates), self.answers)
        else:
            ranked = rank_corpus(embedded(self.queries), embedded(self.candidates), grades, CUTOFF)
            scores = reciprocal_rank(ranked, CUTOFF)
        _, place = np.unique(self.answers, return_inverse=True)
        return np.asarray(np.bincount(place, scores) / np.bincount(place))


def make_tasks(texts: Sequence[str], seed: int = 0) -> list[SelfMadeTask]:
    """First half → second half, and span → rest, of the same texts (N,), in their order.

    Each task has N queries and N candidates. Give texts that `usable` has chosen, and that neither model was fitted or
    trained on.
    """
    parts = {
        "half → half": [halves_of(text) for text in texts],
        "span → rest": [span_of(text, seed) for text in texts],
    }
    return [
        SelfMadeTask(name, [query for query, _ in pairs], [answer for _, answer in pairs], np.arange(len(pairs)))
        for name, pairs in parts.items()
    ]


def usable(texts: Sequence[str], most: int = MOST_TEXTS) -> list[str]:
    """The first ``most`` texts of at least 12 words that are no near-duplicates of an earlier one."""
    return [texts[row] for row in usable_rows(texts, most)]


def usable_rows(texts: Sequence[str], most: int = MOST_TEXTS, shortest: int = FEWEST_WORDS) -> list[int]:
    """Which texts are `usable`, of at least ``shortest`` words. At most 2 · ``most`` are compared with each other."""
    place: dict[str, int] = {}  # of each text's first occurrence
    for row, text in enumerate(texts):
        place.setdefault(text, row)
    long = list(islice((text for text in place if len(words_of(text)[0]) >= shortest), 2 * most))
    if not long:
        return []
    near = _jaccard(long) >= NEAR  # (N, N)
    kept: list[int] = []
    for row in range(len(long)):
        if len(kept) < most and not near[row, kept].any():
            kept.append(row)
    return [place[long[row]] for row in kept]


def compare_self_made(before: Encoder, after: Encoder, tasks: Sequence[SelfMadeTask], seed: int = 0) -> Comparison:
    """Two models on the tasks of `make_tasks`: the mean over tasks, and each task.

    A paired bootstrap over the texts. A text's scores are averaged over the tasks first, since they go together.

    Raises:
        UserError: an encoder gives no usable vectors.
    """
    old, new = (np.array([task.score(encoder) for task in tasks]) for encoder in (before, after))  # (T, N)
    per_task = {task.name: compare_means(old[i], new[i], seed=seed) for i, task in enumerate(tasks)}
    return replace(compare_means(old.mean(axis=0), new.mean(axis=0), seed=seed), per_task=per_task)


def halves_of(text: str) -> tuple[str, str]:
    """The first half of a text's words, and the second."""
    words, between = words_of(text)
    middle = (len(words) + 1) // 2
    return between.join(words[:middle]), between.join(words[middle:])


def span_of(text: str, seed: int) -> tuple[str, str]:
    """A span of the text, at a place that its own checksum draws, and what is left."""
    words, between = words_of(text)
    length = round(SPAN * len(words))
    begin = int(np.random.default_rng([seed, zlib.crc32(text.encode())]).integers(len(words) - length + 1))
    rest = [*words[:begin], *words[begin + length :]]
    return between.join(words[begin : begin + length]), between.join(rest)


def _jaccard(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Common word triples over all word triples of two texts: (N, N)."""
    known: dict[str, int] = {}
    triples = []
    for text in texts:
        ids = np.array([known.setdefault(word, len(known)) for word in words_of(text.casefold())[0]], dtype=np.int64)
        triples.append(np.unique(ids[:-2] << 42 | ids[1:-1] << 21 | ids[2:]))
    sizes = np.array([len(each) for each in triples])
    _, columns, counts = np.unique(np.concatenate(triples), return_inverse=True, return_counts=True)
    rows = np.repeat(np.arange(len(texts)), sizes)
    common = np.zeros((len(texts), len(texts)), dtype=np.float32)
    # Of frequent triples a dense product is faster, of others a sparse one; a triple of one text alone is in none.
    often = counts > OFTEN * len(texts)
    for chosen, dense in ((often, True), (~often & (counts > 1), False)):
        held = chosen[columns]
        place = np.cumsum(chosen) - 1  # of a column among the chosen
        has = csr_array(
            (np.ones(held.sum(), np.float32), (rows[held], place[columns[held]])), shape=(len(texts), chosen.sum())
        )
        common += has.toarray() @ has.toarray().T if dense else (has @ has.T).toarray()
    np.fill_diagonal(common, sizes)
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))
