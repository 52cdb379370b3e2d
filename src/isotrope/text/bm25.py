"""BM25: documents are searched by their words, of which rare ones count more.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009,
https://doi.org/10.1561/1500000019, with the idf of Lucene.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from isotrope.errors import UserError

# Thai, Lao, Japanese, Chinese: no spaces, so each letter is a word
_SINGLE_LETTERS = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
ScoreMatrix = npt.NDArray[np.float32]
WORD = f"[{_SINGLE_LETTERS}]|[^\\W{_SINGLE_LETTERS}]+"


@dataclass(frozen=True)
class Bm25Index:
    """Documents that are searched by their words."""

    words: CountVectorizer  # of the documents; it counts those of a query
    weights: csr_array  # (M, V) the BM25 weight of each word in each document

    @classmethod
    def of(cls, documents: Iterable[str], k1: float = 1.5, b: float = 0.75) -> "Bm25Index":
        """The index of documents (M,); UserError if there is no word in them."""
        words = CountVectorizer(token_pattern=WORD, dtype=np.float32)
        try:
            counts = csr_array(words.fit_transform(documents))
        except ValueError as error:  # an empty vocabulary
            remedy = "give text with words, or leave BM25 out"
            raise UserError("BM25 finds no word in the text", remedy, "no-words") from error
        return cls(words, bm25_weights(counts, k1, b))

    def scores(self, queries: Sequence[str]) -> ScoreMatrix:
        """The sum of a document's weights for the words of a query, each counted once: (Q, M)."""
        counts = csr_array(self.words.transform(queries))  # (Q, V)
        occurs = (counts > 0).astype(np.float32)
        scores = occurs @ self.weights.T
        return np.asarray(scores.toarray())

    def search(self, queries: Sequence[str]) -> Callable[[slice], ScoreMatrix]:
        """`scores` of some of the queries at a time."""
        return lambda rows: self.scores(queries[rows])


def bm25_weights(counts: csr_array, k1: float, b: float) -> csr_array:
    """The weight of each word in each text, sparse: counts (N, V) → (N, V).

    idf(t) · f / (f + k1 (1 − b + b |d| / mean length)) for f occurrences of word t in text d, where
    idf(t) = log(1 + (N − n + 0.5) / (n + 0.5)) of a word that n of N texts have.
    """
    text_count, word_count = counts.shape
    texts_with_word = np.bincount(counts.indices, minlength=word_count)  # (V,)
    texts_without = text_count - texts_with_word
    idf = np.log1p((texts_without + 0.5) / (texts_with_word + 0.5))

    lengths = counts.sum(axis=1)  # (N,)
    norms = k1 * (1 - b + b * lengths / lengths.mean())

    # of each word in each text
    frequencies = counts.data
    norms = np.repeat(norms, np.diff(counts.indptr))
    weights = idf[counts.indices] * frequencies / (frequencies + norms)
    return csr_array((weights.astype(np.float32), counts.indices, counts.indptr), counts.shape)
