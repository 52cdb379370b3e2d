"""A search of documents in memory: cosines of a model, with a share of BM25 added."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.evaluation.search import by_similarity, search_with
from isotrope.evaluation.similarity import similarity_of
from isotrope.text.bm25 import Bm25Index


@dataclass(frozen=True)
class DocumentSearch:
    """Encoded documents and their words."""

    model: SentenceTransformer
    documents: Sequence[str]  # (M,)
    vectors: Vectors  # (M, D)
    index: Bm25Index
    bm25_share: float

    @classmethod
    def of(
        cls, model: SentenceTransformer, documents: Sequence[str], bm25_share: float
    ) -> "DocumentSearch":
        """Encode the documents."""
        vectors = vectors_of(model, documents, role="document")
        return cls(model, documents, vectors, Bm25Index.of(documents), bm25_share)

    def search(self, queries: Sequence[str], count: int) -> list[list[tuple[str, float]]]:
        """The best documents of each query, with their scores, the best first."""
        vectors = vectors_of(self.model, queries, role="query")
        by_model = by_similarity(vectors, self.vectors, similarity_of(self.model))
        searches = [by_model, self.index.search(list(queries))]
        search = search_with(searches, [1 - self.bm25_share, self.bm25_share])
        scores = search(slice(None))  # (Q, M)

        hits = []
        for query_scores in scores:
            best = np.argsort(-query_scores, kind="stable")[:count]
            hits.append([(self.documents[row], float(query_scores[row])) for row in best])
        return hits
