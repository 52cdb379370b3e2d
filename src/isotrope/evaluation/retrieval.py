"""Retrieval: does a query find what is relevant to it, in texts of one's own?

The measures and the order of ties are those of `isotrope.evaluation.search`.
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import normalize

from isotrope.console.progress import tell
from isotrope.encoder.embed import Vectors, search_vectors
from isotrope.evaluation.results import Indices, Result
from isotrope.evaluation.search import (
    CUTOFF,
    RECALLS,
    by_similarity,
    ndcg_at,
    rank_search,
    recall_at,
    reciprocal_rank,
)
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.similarity import Similarity, similarity_of
from isotrope.types import Encoder, Vector

CLUSTERINGS = 5  # k-means depends on where it starts


def evaluate_retrieval(encoder: Encoder, searches: RetrievalSet) -> Result:
    """Means over queries of "ndcg@10", "mrr@10", "recall@10", "recall@100", as fractions, and the
    numbers of texts.

    A model with prompts for queries and documents reads each with its own. If the queries have
    classes, also "v_measure", the mean over five k-means clusterings of them, and its standard
    deviation "v_measure_sd". "per_query" holds the measures of each query that has something to
    find.
    """
    queries, corpus = search_vectors(encoder, searches.queries, searches.corpus)  # (Q, D), (M, D)
    measures = per_query(queries, corpus, searches, similarity_of(encoder))
    result: Result = {name: float(values.mean()) for name, values in measures.items()}

    if searches.labels is not None:
        tell("clustering")
        scores = v_measures(queries, searches.labels)
        result["v_measure"] = float(scores.mean())
        result["v_measure_sd"] = float(scores.std(ddof=1))

    result["queries"] = len(measures[f"ndcg@{CUTOFF}"])
    result["corpus"] = len(searches.corpus)
    result["per_query"] = {name: values.tolist() for name, values in measures.items()}
    return result


def per_query(
    queries: Vectors, corpus: Vectors, searches: RetrievalSet, similarity: Similarity = "cosine"
) -> dict[str, Vector]:
    """Each measure of each query with something to find (Q',): what `significance.compare_means`
    compares.
    """
    search = by_similarity(queries, corpus, similarity)
    ranked = rank_search(search, searches.grades, max(RECALLS), searches.own_documents)

    measures = {
        f"ndcg@{CUTOFF}": ndcg_at(ranked, CUTOFF),
        f"mrr@{CUTOFF}": reciprocal_rank(ranked, CUTOFF),
    }
    for places in RECALLS:
        measures[f"recall@{places}"] = recall_at(ranked, places)

    answerable = ranked.relevant > 0
    return {name: values[answerable] for name, values in measures.items()}


def v_measures(vectors: Vectors, classes: Indices) -> Vector:
    """V-measure of k-means on unit rows (N, D) with as many clusters as there are classes (N,):
    (5,), as fractions.

    Each run has its own start, k-means++. Fewer distinct vectors than classes give fewer clusters,
    so a collapsed encoder scores 0. Source: Rosenberg and Hirschberg, EMNLP 2007,
    https://aclanthology.org/D07-1043.
    """
    rows = normalize(np.asarray(vectors, dtype=np.float32))
    clusters = min(len(np.unique(classes)), len(np.unique(rows, axis=0)))

    scores = []
    for seed in range(CLUSTERINGS):
        assigned = KMeans(clusters, n_init=1, random_state=seed).fit_predict(rows)
        scores.append(v_measure_score(classes, assigned))
    return np.array(scores)
