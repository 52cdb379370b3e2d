"""Exact search, in blocks: what queries find, and how good that is.

Ties count against the model: among equal scores the least relevant text comes first, so a collapsed
encoder finds nothing. Queries without a relevant text are left out of means, as trec_eval does.

Several searches can be fused: words and vectors err in different ways, so their sum often finds
more than either. Such rankings are good teachers too: a fusion teaches more than one of its parts
(RankCSE, Sec. 4.4).

Sources: nDCG, Järvelin and Kekäläinen (2002), https://doi.org/10.1145/582415.582418, with the grade
itself as gain and log2(place + 1) as discount (trec_eval's ndcg_cut); MRR, Voorhees (TREC-8, 1999).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array

from isotrope.console.progress import tell
from isotrope.encoder.embed import Vectors, search_vectors
from isotrope.evaluation.correlation import ratios
from isotrope.evaluation.results import Indices
from isotrope.evaluation.similarity import DECIMALS, Similarity, similarities, similarity_of
from isotrope.types import Encoder, Vector

CUTOFF = 10  # places that nDCG and MRR look at
RECALLS = (10, 100)  # places of the recalls
LIST_LENGTH = 100  # documents a query ranks: with 400, a learned map was no better (docs/log.md)

_BLOCK = 8_000_000  # scores at a time: some 200 MB, whatever the size of the corpus

ScoreBlock: TypeAlias = npt.NDArray[np.floating[Any]]  # (B, M) of M documents for B queries
Search: TypeAlias = Callable[[slice], ScoreBlock]  # some queries -> their scores


class RankedGrades(NamedTuple):
    """The grades that Q queries found, and those that they could have found, best place first."""

    grades: Vector  # (Q, K)
    ideal: Vector  # (Q, K)
    relevant: Indices  # (Q,) texts with a grade above 0 in the whole corpus


class RankedLists(NamedTuple):
    """The best documents of each query, in no order: their numbers (Q, K), and scores (Q, K) from 0
    to 1.
    """

    documents: Indices
    scores: ScoreBlock


def by_cosine(queries: Vectors, corpus: Vectors) -> Search:
    """The search of vectors (Q, D) and (M, D) by their cosine."""
    return by_similarity(queries, corpus, "cosine")


def by_similarity(queries: Vectors, corpus: Vectors, similarity: Similarity) -> Search:
    """The search of vectors (Q, D) and (M, D) by any similarity."""
    return lambda rows: similarities(queries[rows], corpus, similarity)


def encoder_search(encoder: Encoder, queries: Sequence[str], corpus: Sequence[str]) -> Search:
    """The search of an encoder, by the similarity that it was made for: Q queries, M texts."""
    query_vectors, vectors = search_vectors(encoder, queries, corpus)
    return by_similarity(query_vectors, vectors, similarity_of(encoder))


def rank_search(
    search: Search, grades: csr_array, depth: int, own_documents: Indices | None = None
) -> RankedGrades:
    """The grades (Q, M) at the first K = min(depth, M) places of each query.

    ``own_documents`` (Q,) says which document is the query itself; -1 for none. It is never found,
    as in BEIR and mteb.
    """
    query_count, corpus_size = grades.shape
    depth = min(depth, corpus_size)

    blocks = []
    for rows in _query_blocks(query_count, corpus_size):
        tell("ranked for", rows.start, query_count, "queries")
        scores = np.array(search(rows), dtype=np.float64)  # (B, M)
        if own_documents is not None:
            _leave_out(scores, own_documents[rows])
        blocks.append(_rank_block(scores, grades[rows], depth))

    # One array of each field, from the blocks.
    return RankedGrades(*map(np.concatenate, zip(*blocks, strict=True)))


def _query_blocks(query_count: int, corpus_size: int) -> Iterator[slice]:
    """The queries in blocks, each with about `_BLOCK` scores."""
    step = max(1, _BLOCK // corpus_size)
    for start in range(0, query_count, step):
        yield slice(start, start + step)


def _leave_out(scores: ScoreBlock, documents: Indices) -> None:
    """Put one document (B,) of each query, if it is not -1, behind all others of scores (B, M)."""
    rows = np.flatnonzero(documents >= 0)
    scores[rows, documents[rows]] = -np.inf


def _rank_block(scores: ScoreBlock, grades: csr_array, depth: int) -> RankedGrades:
    """`rank_search` for the scores (B, M) of some queries."""
    all_grades = torch.from_numpy(grades.toarray())  # (B, M)

    # Below the last decimal, grades order what scores do not: the best come last.
    highest_grade = max(1.0, float(all_grades.max()))
    tie = 0.1 * 10.0**-DECIMALS / highest_grade
    order = torch.from_numpy(scores).round(decimals=DECIMALS)
    order -= tie * all_grades

    best = order.topk(depth)
    best_grades = all_grades.gather(1, best.indices)
    best_grades[best.values.isinf()] = 0.0  # what is left out
    ideal = all_grades.topk(depth).values
    relevant = np.diff(grades.indptr).astype(np.int64)
    return RankedGrades(best_grades.numpy(), ideal.numpy(), relevant)


def ndcg_at(ranked: RankedGrades, k: int) -> Vector:
    """Discounted gain of the first k places over that of the best order (Q,); 0 if nothing is
    relevant.
    """
    grades = ranked.grades[:, :k]
    places = np.arange(grades.shape[1]) + 1
    discount = 1 / np.log2(places + 1)
    possible = ranked.ideal[:, :k] @ discount
    return ratios(grades @ discount, possible)


def reciprocal_rank(ranked: RankedGrades, k: int) -> Vector:
    """1 / place of the first relevant text (Q,); 0 beyond place k."""
    is_hit = ranked.grades[:, :k] > 0
    first_place = is_hit.argmax(axis=1) + 1
    return np.where(is_hit.any(axis=1), 1 / first_place, 0.0)


def recall_at(ranked: RankedGrades, k: int) -> Vector:
    """Share of a query's relevant texts among the first k (Q,); 0 if nothing is relevant."""
    is_hit = ranked.grades[:, :k] > 0
    possible_hits = np.maximum(ranked.relevant, 1)
    return np.asarray(is_hit.sum(axis=1) / possible_hits)


def search_with(searches: Sequence[Search], weights: Sequence[float]) -> Search:
    """The search that adds the scores of several: see `fused`."""
    return lambda rows: fused([search(rows) for search in searches], weights)


def fused(scores: Sequence[ScoreBlock], weights: Sequence[float]) -> ScoreBlock:
    """Σ_t w_t (s_t − min s_t) / (max s_t − min s_t): T score blocks (Q, M) → (Q, M).

    A query whose scores s_t are all equal gets 0 from them.
    """
    total = np.zeros_like(scores[0])
    for block, weight in zip(scores, weights, strict=True):
        low = block.min(axis=1, keepdims=True)
        high = block.max(axis=1, keepdims=True)
        span = np.where(high > low, high - low, 1)
        total += weight * (block - low) / span
    return total


def ranked_lists(
    searches: Sequence[Search],
    weights: Sequence[float],
    own_documents: Indices,
    document_count: int,
    list_length: int = LIST_LENGTH,
) -> RankedLists:
    """The first documents of each query by the fused ranking. No matrix of all scores is ever in
    memory.

    With fewer than ``list_length`` documents, all but a query's own are listed. Two documents and
    one query are needed.

    Args:
        searches: their scores are added.
        weights: of the searches; they should sum to 1.
        own_documents: (Q,) the document that each query comes from, which is left out; -1: none.
        document_count: M.
        list_length: K.
    """
    search = search_with(searches, weights)
    list_length = min(list_length, document_count - 1)

    blocks = []
    for rows in _query_blocks(len(own_documents), document_count):
        scores = search(rows)  # (B, M)
        _leave_out(scores, own_documents[rows])
        order = np.argpartition(-scores, list_length - 1, axis=1)
        best = order[:, :list_length]
        best_scores = np.take_along_axis(scores, best, axis=1)
        blocks.append((best, best_scores))
    return RankedLists(*map(np.concatenate, zip(*blocks, strict=True)))
