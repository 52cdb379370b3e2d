"""Retrieval by cosine: does a query find what is relevant to it, in a domain of one's own?

Search is exact, in blocks. Ties count against the model: among equal cosines the least relevant
text comes first, so a collapsed encoder finds nothing. Queries to which nothing is relevant are
left out, as trec_eval does.

Several searches can be fused: words and vectors err in different ways, so their sum often finds
more than either. Such rankings are good teachers too: a fusion teaches more than one of its parts
(RankCSE, Sec. 4.4).

Sources: nDCG, Järvelin and Kekäläinen (2002), https://doi.org/10.1145/582415.582418, with the grade
itself as gain and log2(place + 1) as discount (trec_eval's ndcg_cut); MRR, Voorhees (TREC-8, 1999).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import normalize

from isotrope.console.progress import tell
from isotrope.encoder.embed import Vectors, search_vectors
from isotrope.evaluation.sets.domain import Domain
from isotrope.types import Encoder, Vector

CUTOFF = 10  # places that nDCG and MRR look at
RECALLS = (10, 100)  # places of the recalls
DECIMALS = 12  # cosines that agree so far are ties: those of equal texts differ by rounding alone
RUNS = 5  # k-means depends on where it starts
LIST = 100  # documents that a query ranks: with 400, a learned map was no better (docs/log.md)
Found: TypeAlias = npt.NDArray[np.floating[Any]]  # (B, M) scores of M documents for B queries
Search: TypeAlias = Callable[[slice], Found]  # some queries -> their scores
_BLOCK = 8_000_000  # scores at a time: some 200 MB, whatever the corpus


class Ranked(NamedTuple):
    """What Q queries found, and what they could have found: grades, best place first."""

    found: Vector  # (Q, K)
    ideal: Vector  # (Q, K)
    relevant: npt.NDArray[np.int64]  # (Q,) texts with a grade above 0 in the whole corpus


def evaluate_domain(encoder: Encoder, domain: Domain) -> dict[str, Any]:
    """Means over queries of "ndcg@10", "mrr@10", "recall@10", "recall@100", as fractions, and the
    numbers of texts.

    A model with prompts for queries and documents reads each with its own. Where the queries have
    classes, also "v_measure", the mean over five k-means clusterings of them, and its standard
    deviation "v_measure_sd". "per_query" holds the measures of each query that has something to
    find.
    """
    queries, corpus = search_vectors(encoder, domain.queries, domain.corpus)  # (Q, D), (M, D)
    measures = per_query(queries, corpus, domain)
    result: dict[str, Any] = {name: float(values.mean()) for name, values in measures.items()}
    if domain.labels is not None:
        tell("clustering")
        v = v_measures(queries, domain.labels)
        result |= {"v_measure": float(v.mean()), "v_measure_sd": float(v.std(ddof=1))}
    result |= {"queries": len(measures["ndcg@10"]), "corpus": len(domain.corpus)}
    return result | {"per_query": {name: values.tolist() for name, values in measures.items()}}


class Lists(NamedTuple):
    """The best documents of each query, in no order: their numbers (Q, K), and scores (Q, K) from 0
    to 1.
    """

    documents: npt.NDArray[np.int64]
    scores: Found


class OwnTask:
    """A domain, as `read_labels` gives it, whose measure is nDCG@10."""

    def __init__(self, domain: Domain) -> None:
        self.domain, self.name, self.size = domain, domain.name, len(domain.queries)
        self.texts = [*domain.queries, *domain.corpus]

    def part(self, count: int) -> "OwnTask":
        """At most ``count`` queries, and a like share of the texts that are not relevant to them."""
        return self if count >= self.size else OwnTask(self.domain.part(count))

    def score(self, encoder: Encoder) -> Vector:
        """nDCG@10 of each query that has something to find: (Q,)."""
        return self.score_search(
            by_cosine(*search_vectors(encoder, self.domain.queries, self.domain.corpus))
        )

    def score_search(self, search: Search) -> Vector:
        """As `score`, of any search → (Q,)."""
        ranked = rank_search(search, self.domain.grades, CUTOFF, self.domain.own)
        return ndcg_at(ranked, CUTOFF)[ranked.relevant > 0]


def per_query(queries: Vectors, corpus: Vectors, domain: Domain) -> dict[str, Vector]:
    """Each measure of each query with something to find, (Q',): what `significance.compare_means`
    compares.
    """
    ranked = rank_search(by_cosine(queries, corpus), domain.grades, max(RECALLS), domain.own)
    measures = {
        f"ndcg@{CUTOFF}": ndcg_at(ranked, CUTOFF),
        f"mrr@{CUTOFF}": reciprocal_rank(ranked, CUTOFF),
    }
    measures |= {f"recall@{k}": recall_at(ranked, k) for k in RECALLS}
    return {name: values[ranked.relevant > 0] for name, values in measures.items()}


def ndcg_at(ranked: Ranked, k: int) -> Vector:
    """Discounted gain of the first k places, over that of the best order: (Q,); 0 where nothing is
    relevant.
    """
    discount = 1 / np.log2(np.arange(2, min(k, ranked.found.shape[1]) + 2))
    gained, possible = (grades[:, :k] @ discount for grades in (ranked.found, ranked.ideal))
    return np.divide(gained, possible, out=np.zeros_like(gained), where=possible > 0)


def reciprocal_rank(ranked: Ranked, k: int) -> Vector:
    """1 / place of the first relevant text, 0 beyond k: (Q,)."""
    hits = ranked.found[:, :k] > 0
    return np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0)


def recall_at(ranked: Ranked, k: int) -> Vector:
    """Share of a query's relevant texts among the first k: (Q,); 0 where nothing is relevant."""
    return np.asarray((ranked.found[:, :k] > 0).sum(axis=1) / np.maximum(ranked.relevant, 1))


def v_measures(vectors: Vectors, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """V-measure of k-means on unit rows (N, D) with as many clusters as there are classes (N,):
    (5,), as fractions.

    Each run has its own start, k-means++. Fewer distinct vectors than classes give fewer clusters,
    so a collapsed encoder scores 0. Source: Rosenberg and Hirschberg, EMNLP 2007,
    https://aclanthology.org/D07-1043.
    """
    rows = normalize(np.asarray(vectors, dtype=np.float32))
    clusters = min(len(np.unique(labels)), len(np.unique(rows, axis=0)))
    found = [KMeans(clusters, n_init=1, random_state=run).fit_predict(rows) for run in range(RUNS)]
    return np.array([v_measure_score(labels, assigned) for assigned in found])


def by_cosine(queries: Vectors, corpus: Vectors) -> Search:
    """The search of a model, from vectors (Q, D) and (M, D). A vector of zeros is at 0 from all."""
    a, b = (
        F.normalize(torch.from_numpy(np.asarray(rows, dtype=np.float64)))
        for rows in (queries, corpus)
    )
    return lambda rows: (a[rows] @ b.T).numpy()


def rank_search(search: Search, grades: csr_array, depth: int, own: bool = False) -> Ranked:
    """The grades at the first `depth` places of each query: (Q, M) → K = min(depth, M). Few queries
    at a time.

    With `own` the corpus is the queries, and none finds itself.
    """
    count, size = grades.shape
    step, depth, parts = max(1, _BLOCK // size), min(depth, size), []
    for start in range(0, count, step):
        tell("ranked for", start, count, "queries")
        scores = np.array(search(slice(start, start + step)), dtype=np.float64)  # (B, M)
        if own:
            rows = np.arange(len(scores))
            scores[rows, start + rows] = -np.inf  # text i of the corpus is query i
        part = grades[start : start + step]
        # Below the last decimal, grades order what scores do not: the best last.
        tie, grade = (
            0.1 * 10.0**-DECIMALS / max(1.0, float(part.max())),
            torch.from_numpy(part.toarray()),
        )
        order = torch.round(torch.from_numpy(scores), decimals=DECIMALS) - tie * grade
        found, ideal = grade.gather(1, order.topk(depth).indices), grade.topk(depth).values
        parts.append((found.numpy(), ideal.numpy(), np.diff(part.indptr).astype(np.int64)))
    return Ranked(*map(np.concatenate, zip(*parts, strict=True)))


def search_with(teachers: Sequence[Search], weights: Sequence[float]) -> Search:
    """The search that adds the scores of several: see `fused`."""
    return lambda rows: fused([search(rows) for search in teachers], weights)


def fused(scores: Sequence[Found], weights: Sequence[float]) -> Found:
    """Σ_t w_t (s_t − min s_t) / (max s_t − min s_t), or 0 where all s_t of a query are equal: T of
    (Q, M) → (Q, M).
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
    """The first ``count`` documents of each query by the fused ranking. No matrix of all scores is
    ever in memory.

    ``own`` (Q,) is the document that each query comes from, which is left out; -1: none. The
    weights should sum to 1. With fewer than ``count`` documents, all but a query's own are listed.
    Two documents and one query are needed.
    """
    together, parts = search_with(teachers, weights), []
    count, step = min(count, documents - 1), max(1, _BLOCK // documents)
    for begin in range(0, len(own), step):
        rows = slice(begin, begin + step)
        total = together(rows)  # (q, M)
        asked = np.flatnonzero(own[rows] >= 0)
        total[asked, own[rows][asked]] = -1
        best = np.argpartition(-total, count - 1, axis=1)[:, :count]
        parts.append((best, np.take_along_axis(total, best, axis=1)))
    return Lists(*map(np.concatenate, zip(*parts, strict=True)))
