"""The vectors of a task's texts, encoded once."""

from collections.abc import Iterable, Sequence

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import has_roles
from isotrope.evaluation.similarity import Similarity, similarity_of
from isotrope.types import Encoder


class Embeddings:
    """Texts (N,) with their vectors (N, D), as an encoder of these texts: many steps after it cost
    nothing.

    ``queries`` are the texts that the model reads as queries; None: it reads all texts in one way.
    ``similarity`` is the one that the model was made for.
    """

    def __init__(
        self,
        texts: Sequence[str],
        vectors: Vectors,
        queries: "Embeddings | None" = None,
        similarity: Similarity = "cosine",
    ) -> None:
        self.texts = texts
        self.vectors = vectors
        self.queries = queries
        self.similarity_fn_name = similarity
        self.has_roles = queries is not None
        self._row_of = {text: row for row, text in enumerate(texts)}

    @classmethod
    def of(cls, encoder: Encoder, texts: Iterable[str]) -> "Embeddings":
        """The distinct texts, in order of first occurrence, encoded in one call of the encoder."""
        distinct = list(dict.fromkeys(texts))
        return cls(distinct, vectors_of(encoder, distinct), similarity=similarity_of(encoder))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors (M, D) of M texts that were among those given."""
        rows = [self._row_of[text] for text in texts]
        return np.asarray(self.vectors[rows])

    encode_document = encode

    def encode_query(self, texts: Sequence[str]) -> Vectors:
        """Vectors (M, D) of M texts, read as queries."""
        return (self.queries or self).encode(texts)


def embed_texts(
    model: SentenceTransformer,
    queries: Sequence[str],
    documents: Sequence[str],
    length: int | None = None,
    query_model: SentenceTransformer | None = None,
) -> Embeddings:
    """The vectors of queries and of documents, of which at most ``length`` tokens are read.

    ``query_model`` reads the queries, if it is given. A model without roles reads both in one way.
    """
    reader = query_model or model
    similarity = similarity_of(model)
    with limit_length(model, length), limit_length(reader, length):
        if query_model is None and not has_roles(model):
            texts = list(dict.fromkeys([*queries, *documents]))
            all_vectors = vectors_of(model, texts, batch_size=32)
            return Embeddings(texts, all_vectors, similarity=similarity)

        query_embeddings = None
        if queries:
            query_vectors = vectors_of(reader, queries, batch_size=32, role="query")
            query_embeddings = Embeddings(queries, query_vectors)
        vectors: Vectors = np.empty((0, 1))
        if documents:
            vectors = vectors_of(model, documents, batch_size=32, role="document")
        return Embeddings(documents, vectors, query_embeddings, similarity)
