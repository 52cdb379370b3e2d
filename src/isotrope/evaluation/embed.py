"""The vectors of a task's texts, and the cosines of its pairs."""

from collections.abc import Iterable, Sequence

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, cut, vectors_of
from isotrope.encoder.prompts import has_roles
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.types import Encoder, Vector


class Known:
    """An encoder of texts (N,), each once, whose vectors (N, D) are known, so that many steps after
    it cost nothing.

    ``queries`` are the texts that the model reads as queries; None: it reads all texts in one way.
    """

    def __init__(
        self, texts: Sequence[str], vectors: Vectors, queries: "Known | None" = None
    ) -> None:
        self.texts, self.vectors, self.queries = texts, vectors, queries
        self.has_roles = queries is not None
        self._row = {text: row for row, text in enumerate(texts)}

    @classmethod
    def of(cls, encoder: Encoder, texts: Iterable[str]) -> "Known":
        """The distinct texts, in order of first occurrence, encoded in one call of the encoder."""
        distinct = list(dict.fromkeys(texts))
        return cls(distinct, vectors_of(encoder, distinct))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors (M, D) of M texts that were among those given."""
        return np.asarray(self.vectors[[self._row[text] for text in texts]])

    encode_document = encode

    def encode_query(self, texts: Sequence[str]) -> Vectors:
        return (self.queries or self).encode(texts)

    def cosines(self, pairs: Pairs) -> Vector:
        """Cosine (N,) of each pair, in the vectors' own precision as SentEval has it; 0 where a
        vector is zero.
        """
        return row_cosines(self.encode(pairs.first), self.encode(pairs.second))


def known_by(
    model: SentenceTransformer,
    queries: Sequence[str],
    documents: Sequence[str],
    length: int | None = None,
    asking: SentenceTransformer | None = None,
) -> Known:
    """The vectors of queries, perhaps by the model ``asking``, and of other texts, of which so many
    tokens are read.
    """
    with cut(model, length), cut(asking or model, length):
        if asking is None and not has_roles(model):
            every = list(dict.fromkeys([*queries, *documents]))
            return Known(every, vectors_of(model, every, batch_size=32))
        asked = (
            Known(queries, vectors_of(asking or model, queries, batch_size=32, role="query"))
            if queries
            else None
        )
        if not documents:
            return Known([], np.empty((0, 1)), asked)
        return Known(documents, vectors_of(model, documents, batch_size=32, role="document"), asked)


def row_cosines(a: Vectors, b: Vectors) -> Vector:
    """Cosines (N,) of the rows of a (N, D) and b (N, D); 0 where a row is zero."""
    norms = np.sqrt(dot(a, a)) * np.sqrt(dot(b, b))
    cosines = np.divide(dot(a, b), norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(cosines, dtype=np.float64)


def dot(a: Vectors, b: Vectors) -> Vectors:
    """Row-wise products of a (N, D) and b (N, D) → (N,), summed in one fixed order: the same bits
    on every machine.

    Pairs of equal sentences have cosine 1 up to the last bit, and that bit decides their rank: the
    correlation of STS12 SMTeuroparl differs by 0.001 from one CPU to another. The order here is
    that of a dot product on a CPU with AVX-512, where SentEval's reference results come from: 64
    lanes of fused multiply-adds, folded to 32, 8, 4, 2, 1.
    """
    lanes = np.zeros((len(a), 64), a.dtype)
    for start in range(0, a.shape[1], 64):
        u, v = (x[:, start : start + 64].astype(np.float64) for x in (a, b))
        # Fused: the product of two float32 is exact in float64, so a step rounds once.
        lanes[:, : u.shape[1]] = lanes[:, : u.shape[1]] + u * v
    four = lanes.reshape(-1, 4, 2, 8).sum(axis=2)  # (N, 4, 8): four registers, their halves added
    eight = four[:, 0] + four[:, 1] + four[:, 2] + four[:, 3]
    half = eight[:, :4] + eight[:, 4:]
    return np.asarray((half[:, 0] + half[:, 1]) + (half[:, 2] + half[:, 3]))
