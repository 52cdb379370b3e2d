"""Teachers of rankings: which documents a query should find, by BM25, by models, and by several of them together.

A fusion of teachers teaches more than one of them (RankCSE, Sec. 4.4). A search with words and a
search with vectors err in different ways, so their sum often finds more than either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.evaluation.retrieval import Search

Found = npt.NDArray[np.floating[Any]]  # (q, M) scores of M documents for q queries
LIST = 100  # documents that a query ranks: with 400, a learned map was no better (docs/log.md)
_BLOCK = 8_000_000  # scores in memory


@dataclass(frozen=True, slots=True)
class Lists:
    """The best documents of each query, in no order.

    Attributes:
        documents: (Q, K) their numbers.
        scores: (Q, K) from 0 to 1.
    """

    documents: npt.NDArray[np.int64]
    scores: Found


def search_with(teachers: Sequence[Search], weights: Sequence[float]) -> Search:
    """The search that adds the scores of several: see `fused`."""
    return lambda rows: fused([search(rows) for search in teachers], weights)


def fused(scores: Sequence[Found], weights: Sequence[float]) -> Found:
    """Σ_t w_t (s_t − min s_t) / (max s_t − min s_t), with minimum and maximum of each query: T of (Q, M) → (Q, M).

    A teacher that gives all documents the same score adds nothing.
    """
    total = np.zeros_like(scores[0])
    for one, weight in zip(scores, weights, strict=True):
        low, high = one.min(axis=1, keepdims=True), one.max(axis=1, keepdims=True)
        total += weight * (one - low) / np.where(high > low, high - low, 1)
    return total


def ranked_lists(
    teachers: Sequence[Search],
    weights: Sequence[float],
    own: npt.NDArray[np.int64],
    documents: int,
    count: int = LIST,
) -> Lists:
    """The first ``count`` documents of each query by the fused ranking. No matrix of all scores is ever in memory.

    Args:
        teachers: their searches.
        weights: of each; they should sum to 1.
        own: (Q,) the document that each query comes from, which is left out; -1: none.
        documents: M.
        count: K; with fewer documents, all but a query's own.

    Raises:
        UserError: there are fewer than two documents, or no query.
    """
    if documents < 2 or not len(own):
        raise UserError(f"{len(own)} queries cannot rank {documents} documents", "give more documents")
    together = search_with(teachers, weights)
    count, step = min(count, documents - 1), max(1, _BLOCK // documents)
    found, scores = [], []
    for begin in range(0, len(own), step):
        rows = slice(begin, begin + step)
        total = together(rows)  # (q, M)
        asked = np.flatnonzero(own[rows] >= 0)
        total[asked, own[rows][asked]] = -1
        best = np.argpartition(-total, count - 1, axis=1)[:, :count]
        found.append(best)
        scores.append(np.take_along_axis(total, best, axis=1))
    return Lists(np.concatenate(found), np.concatenate(scores))
