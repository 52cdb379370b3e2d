"""The vectors of a task's texts, and the cosines of pairs of them."""

from collections.abc import Iterable, Sequence

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import has_roles
from isotrope.types import Encoder, Vector

# Cosines that agree to so many decimals are ties: those of equal texts differ by rounding only.
DECIMALS = 12


class Embeddings:
    """Texts (N,) with their vectors (N, D), as an encoder of these texts: many steps after it cost
    nothing.

    ``queries`` are the texts that the model reads as queries; None: it reads all texts in one way.
    """

    def __init__(
        self, texts: Sequence[str], vectors: Vectors, queries: "Embeddings | None" = None
    ) -> None:
        self.texts = texts
        self.vectors = vectors
        self.queries = queries
        self.has_roles = queries is not None
        self._row_of = {text: row for row, text in enumerate(texts)}

    @classmethod
    def of(cls, encoder: Encoder, texts: Iterable[str]) -> "Embeddings":
        """The distinct texts, in order of first occurrence, encoded in one call of the encoder."""
        distinct = list(dict.fromkeys(texts))
        return cls(distinct, vectors_of(encoder, distinct))

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
    with limit_length(model, length), limit_length(reader, length):
        if query_model is None and not has_roles(model):
            texts = list(dict.fromkeys([*queries, *documents]))
            return Embeddings(texts, vectors_of(model, texts, batch_size=32))

        asked = None
        if queries:
            asked = Embeddings(queries, vectors_of(reader, queries, batch_size=32, role="query"))
        if not documents:
            return Embeddings([], np.empty((0, 1)), asked)
        vectors = vectors_of(model, documents, batch_size=32, role="document")
        return Embeddings(documents, vectors, asked)


def row_cosines(a: Vectors, b: Vectors) -> Vector:
    """Cosines (N,) of the rows of a (N, D) and b (N, D), in float64; 0 where a row is zero.

    They are rounded to 12 decimals, so that pairs of equal sentences are ties on every machine. In
    SentEval, which computes in float32, the last bit ranks such pairs: the correlation of STS12
    SMTeuroparl, which has many, differs by up to 0.001 from one processor to another.
    """
    left = np.asarray(a, dtype=np.float64)
    right = np.asarray(b, dtype=np.float64)
    products = np.einsum("nd,nd->n", left, right)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines = np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(np.round(cosines, DECIMALS))
