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
from isotrope.evaluation.retrieval import CUTOFF, rank_corpus, reciprocal_rank
from isotrope.evaluation.significance import Comparison, compare_means
from isotrope.types import Encoder, Vector

FEWEST_WORDS = 12  # of a text: each half then has six
FEWEST_TEXTS = 50  # with fewer, only a change of many points shows
MOST_TEXTS = 700  # more texts cost time and narrow the interval little
SPAN = 0.3  # of the words of a text
NEAR = 0.5  # two texts with so large a share of common word triples (Jaccard) are near-duplicates
LONGEST_WORD = 15  # letters on average: beyond it, the language writes no spaces, and letters count as words


@dataclass(frozen=True, slots=True)
class SelfMadeTask:
    """Q queries, each with one answer among M candidates."""

    name: str
    queries: list[str]  # (Q,)
    candidates: list[str]  # (M,)
    answers: npt.NDArray[np.int64]  # (Q,) which candidate is the answer

    @property
    def texts(self) -> list[str]:
        """All that is encoded."""
        return [*self.queries, *self.candidates]


def make_tasks(texts: Sequence[str], seed: int = 0) -> list[SelfMadeTask]:
    """First half → second half, and span → rest, of the same texts (N,), in their order.

    Each task has N queries and N candidates. Give texts that `usable` has chosen, and that neither model was fitted or
    trained on.
    """
    parts = {
        "half → half": [_halves(text) for text in texts],
        "span → rest": [_span(text, seed) for text in texts],
    }
    return [
        SelfMadeTask(name, [query for query, _ in pairs], [answer for _, answer in pairs], np.arange(len(pairs)))
        for name, pairs in parts.items()
    ]


def usable(texts: Sequence[str], most: int = MOST_TEXTS) -> list[str]:
    """The first ``most`` texts of at least 12 words that are no near-duplicates of an earlier one."""
    long = list(islice((text for text in texts if len(_words(text)[0]) >= FEWEST_WORDS), 2 * most))
    if not long:
        return []
    near = _jaccard(long) >= NEAR  # (N, N)
    kept: list[int] = []
    for row in range(len(long)):
        if len(kept) < most and not near[row, kept].any():
            kept.append(row)
    return [long[row] for row in kept]


def score_task(encoder: Encoder, task: SelfMadeTask) -> Vector:
    """1 / place of each query's answer by cosine, 0 beyond the tenth place: (Q,). Their mean is MRR@10.

    Raises:
        UserError: the encoder gives no usable vectors.
    """
    embedded = Embedded(encoder, task.texts)
    count = len(task.queries)
    grades = csr_array((np.ones(count), (np.arange(count), task.answers)), shape=(count, len(task.candidates)))
    ranked = rank_corpus(embedded(task.queries), embedded(task.candidates), grades, CUTOFF)
    return reciprocal_rank(ranked, CUTOFF)


def compare_self_made(before: Encoder, after: Encoder, tasks: Sequence[SelfMadeTask], seed: int = 0) -> Comparison:
    """Two models on the tasks of `make_tasks`: the mean over tasks, and each task.

    A paired bootstrap over the texts. A text's scores are averaged over the tasks first, since they go together.

    Raises:
        UserError: an encoder gives no usable vectors.
    """
    old, new = (np.array([score_task(encoder, task) for task in tasks]) for encoder in (before, after))  # (T, N)
    per_task = {task.name: compare_means(old[i], new[i], seed=seed) for i, task in enumerate(tasks)}
    return replace(compare_means(old.mean(axis=0), new.mean(axis=0), seed=seed), per_task=per_task)


def _words(text: str) -> tuple[Sequence[str], str]:
    """The words of a text and what stands between them; its letters, where the language writes no spaces."""
    words = text.split()
    return (text, "") if len(text) > LONGEST_WORD * len(words) else (words, " ")


def _halves(text: str) -> tuple[str, str]:
    words, between = _words(text)
    middle = (len(words) + 1) // 2
    return between.join(words[:middle]), between.join(words[middle:])


def _span(text: str, seed: int) -> tuple[str, str]:
    """A span of the text, at a place that its own checksum draws, and what is left."""
    words, between = _words(text)
    length = round(SPAN * len(words))
    begin = int(np.random.default_rng([seed, zlib.crc32(text.encode())]).integers(len(words) - length + 1))
    rest = [*words[:begin], *words[begin + length :]]
    return between.join(words[begin : begin + length]), between.join(rest)


def _jaccard(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Common word triples over all word triples of two texts: (N, N)."""
    columns: dict[tuple[str, ...], int] = {}
    rows, places = [], []
    for row, text in enumerate(texts):
        words = _words(text.casefold())[0]
        triples = {tuple(words[i : i + 3]) for i in range(len(words) - 2)}
        rows += [row] * len(triples)
        places += [columns.setdefault(triple, len(columns)) for triple in triples]
    has = csr_array((np.ones(len(rows)), (rows, places)), shape=(len(texts), len(columns)))
    common = (has @ has.T).toarray()
    sizes = common.diagonal()
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))
