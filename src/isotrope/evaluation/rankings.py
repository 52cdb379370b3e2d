"""Teachers of rankings: which documents a query should find, by BM25, by models, and by several of them together.

A fusion of teachers teaches more than one of them (RankCSE, Sec. 4.4). Whoever searches with words and whoever searches
with vectors err in different ways, so their sum is nearly always the better search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.types import Vector

Found = npt.NDArray[np.float32]  # (q, M) scores of M documents for q queries
Ranker = Callable[[slice], Found]  # these of the queries -> their scores
Judge = Callable[[list[tuple[int, int]]], Vector]  # pairs of a query's and a document's number -> (pairs,)
LIST = 100  # documents that a query ranks: with 400, a learned map was no better (docs/log.md)
RERANKED = 50
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


def fused(scores: Sequence[Found], weights: Sequence[float]) -> Found:
    """Σ_t w_t (s_t − min s_t) / (max s_t − min s_t), with minimum and maximum of each query: T of (Q, M) → (Q, M).

    A teacher that gives all documents the same score adds nothing.
    """
    total = np.zeros_like(scores[0])
    for one, weight in zip(scores, weights, strict=True):
        low, high = one.min(axis=1, keepdims=True), one.max(axis=1, keepdims=True)
        total += weight * (one - low) / np.where(high > low, high - low, 1)
    return total


def by_cosine(queries: Found, documents: Found) -> Ranker:
    """A model's ranking, from vectors (Q, D) and (M, D)."""
    q, d = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (queries, documents))
    return lambda rows: np.asarray(q[rows] @ d.T, dtype=np.float32)


def ranked_lists(
    rankers: Sequence[Ranker],
    weights: Sequence[float],
    own: npt.NDArray[np.int64],
    documents: int,
    count: int = LIST,
) -> Lists:
    """The first ``count`` documents of each query by the fused ranking. No matrix of all scores is ever in memory.

    Args:
        rankers: the teachers.
        weights: of each; they should sum to 1.
        own: (Q,) the document that each query comes from, which is left out; -1: none.
        documents: M.
        count: K; with fewer documents, all but a query's own.

    Raises:
        UserError: there are fewer than two documents, or no query.
    """
    if documents < 2 or not len(own):
        raise UserError(f"{len(own)} queries cannot rank {documents} documents", "give more documents")
    count, step = min(count, documents - 1), max(1, _BLOCK // documents)
    found, scores = [], []
    for begin in range(0, len(own), step):
        rows = slice(begin, begin + step)
        total = fused([ranker(rows) for ranker in rankers], weights)  # (q, M)
        asked = np.flatnonzero(own[rows] >= 0)
        total[asked, own[rows][asked]] = -1
        best = np.argpartition(-total, count - 1, axis=1)[:, :count]
        found.append(best)
        scores.append(np.take_along_axis(total, best, axis=1))
    return Lists(np.concatenate(found), np.concatenate(scores))


def reranked(lists: Lists, judge: Judge, count: int = RERANKED) -> Lists:
    """The first ``count`` of each list in the order of a judge that reads query and document together.

    Args:
        lists: as `ranked_lists` gives them.
        judge: pairs of a query's and a document's number -> a score for each, as a cross-encoder gives them.
        count: how many are read. They get the scores 0 to 1 of the judge, and come before the others, which keep 0.
    """
    order = np.argsort(-lists.scores, axis=1, kind="stable")[:, :count]  # (Q, C)
    documents = np.take_along_axis(lists.documents, order, axis=1)
    pairs = [(query, int(document)) for query, row in enumerate(documents) for document in row]
    scores = fused([np.asarray(judge(pairs), dtype=np.float32).reshape(order.shape)], [1.0])
    total = np.zeros_like(lists.scores)
    np.put_along_axis(total, order, scores, axis=1)
    return Lists(lists.documents, total)


def cross_encoder(
    model: str, queries: Sequence[str], documents: Sequence[str]
) -> Callable[[list[tuple[int, int]]], Vector]:
    """A judge for `reranked`: a cross-encoder in a folder of this machine.

    Raises:
        UserError: it cannot be loaded, or gives several numbers for a pair.
    """
    from sentence_transformers import CrossEncoder

    try:
        encoder = CrossEncoder(model, device="cpu", local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{model} is no cross-encoder ({error})", "name the folder of one") from error
    if encoder.config.num_labels != 1:
        raise UserError(f"{model} gives {encoder.config.num_labels} numbers for a pair", "name one that gives a score")
    return lambda pairs: np.asarray(
        encoder.predict([(queries[q], documents[d]) for q, d in pairs], show_progress_bar=False), dtype=np.float64
    )
