"""A task that nobody labelled, made from documents (`document_tasks`), and how two models are
compared on several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.retrieval import (
    CUTOFF,
    DECIMALS,
    Search,
    by_cosine,
    rank_search,
    reciprocal_rank,
)
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.significance import Comparison, compare_means, judged
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Vector

SHARE = "share of the other answers behind the right one"


@dataclass(frozen=True, slots=True)
class SelfMadeTask:
    """Q queries, each with one answer among A candidates, each of which is the answer of one query
    or of several.

    With ``all_places`` every place counts, not the first ten alone: parts of a short text say so
    little that its answer is rarely among these.
    """

    name: str
    queries: list[str]  # (Q,)
    candidates: list[str]  # (A,)
    answers: npt.NDArray[np.int64]  # (Q,) which candidate is the answer
    of: npt.NDArray[np.int64]  # (A,) of which document each answer is
    all_places: bool = False

    @property
    def texts(self) -> list[str]:
        """All that is encoded."""
        return [*self.queries, *self.candidates]

    @property
    def size(self) -> int:
        """How many answers there are."""
        return len(self.candidates)

    @property
    def domain(self) -> Domain:
        """The queries and what each shall find."""
        shape = len(self.queries), len(self.candidates)
        grades = csr_array((np.ones(shape[0]), (np.arange(shape[0]), self.answers)), shape=shape)
        return Domain(self.name, self.queries, self.candidates, grades)

    def part(self, count: int) -> "SelfMadeTask":
        """At most ``count`` of the answers, evenly spread, with all their queries, as the only
        candidates.
        """
        kept = np.array(evenly(self.size, count))
        rows = np.flatnonzero(np.isin(self.answers, kept))
        queries, candidates = (
            [self.queries[row] for row in rows],
            [self.candidates[answer] for answer in kept],
        )
        places = np.searchsorted(kept, self.answers[rows])
        return SelfMadeTask(self.name, queries, candidates, places, self.of[kept], self.all_places)

    def score(self, encoder: Encoder) -> Vector:
        """1 / place of a query's answer by cosine, 0 beyond the tenth place; the mean over each
        answer's queries: (A,).

        With ``all_places``, it is the share of the other candidates that come behind the answer:
        0.5 is chance.
        """
        return self.score_search(by_cosine(*search_vectors(encoder, self.queries, self.candidates)))

    def score_search(self, search: Search) -> Vector:
        """As `score`, of any search → (A,). Ties count against it."""
        if self.all_places:
            scores = np.round(np.asarray(search(slice(None)), dtype=np.float64), DECIMALS)  # (Q, A)
            right = np.take_along_axis(scores, self.answers[:, None], axis=1)
            own = (scores < right).sum(axis=1) / max(1, self.size - 1)
        else:
            own = reciprocal_rank(rank_search(search, self.domain.grades, CUTOFF), CUTOFF)
        return np.asarray(np.bincount(self.answers, own) / np.bincount(self.answers))


def measure_in_words(tasks: Sequence[SelfMadeTask]) -> str:
    """What the tasks measure, for a reader."""
    kinds = {task.all_places for task in tasks}
    return (
        "score × 100"
        if len(kinds) > 1
        else f"{SHARE} × 100"
        if kinds == {True}
        else f"MRR@{CUTOFF} × 100"
    )


def compare_on_documents(
    before: Encoder, after: Encoder, tasks: Sequence[SelfMadeTask]
) -> Comparison:
    """Two models on the tasks of the same documents: the mean over tasks, and each task.

    A paired bootstrap draws documents, with all that the tasks ask of them, because these scores go
    together.
    """
    old, new = ([task.score(encoder) for task in tasks] for encoder in (before, after))
    weights = document_weights([task.of for task in tasks])
    # (R,) for each task: the difference on each resample of the documents
    drawn = [of @ (b - a) for of, a, b in zip(weights, old, new, strict=True)]
    points = [float(np.mean([cases.mean() for cases in scores])) for scores in (old, new)]
    per_task = {task.name: compare_means(a, b) for task, a, b in zip(tasks, old, new, strict=True)}
    return judged(points[0], points[1], np.mean(drawn, axis=0), per_task)


def document_weights(
    of: Sequence[npt.NDArray[np.int64]], resamples: int = 1000, seed: int = 0
) -> list[npt.NDArray[np.float64]]:
    """The weights (R, A), of sum 1, of each task's cases (of documents (A,)) on the same R
    resamples of documents.
    """
    count = 1 + max(int(own.max()) for own in of)
    # (R, N)
    times = np.random.default_rng(seed).multinomial(
        count, np.full(count, 1 / count), size=resamples
    )
    return [times[:, own] / times[:, own].sum(axis=1, keepdims=True) for own in of]
