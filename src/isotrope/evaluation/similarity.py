"""How near two sets of vectors are, by the similarity that a model was made for.

A model says it as ``similarity_fn_name``, as sentence-transformers has it: the cosine (which is the
default), the dot product, or a distance, whose negative is the similarity.
"""

from typing import Literal

import numpy as np
import torch
from sentence_transformers.util import SimilarityFunction
from torch import Tensor

from isotrope.encoder.embed import Vectors
from isotrope.evaluation.correlation import ratios
from isotrope.types import Matrix, Vector

Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]

# Similarities that agree to so many decimals are ties: equal texts differ by rounding only.
DECIMALS = 12


def similarity_of(encoder: object) -> Similarity:
    """The similarity that an encoder was made for; the cosine if it says nothing."""
    return getattr(encoder, "similarity_fn_name", None) or "cosine"


def similarities(queries: Vectors, corpus: Vectors, similarity: Similarity = "cosine") -> Matrix:
    """Similarities (Q, M) of queries (Q, D) and a corpus (M, D), in float64.

    A vector of zeros has cosine 0 with all.
    """
    measure = SimilarityFunction.to_similarity_fn(similarity)
    return np.asarray(measure(_float64(queries), _float64(corpus)).numpy())


def row_similarities(a: Vectors, b: Vectors, similarity: Similarity = "cosine") -> Vector:
    """Similarities (N,) of the rows of a (N, D) and b (N, D).

    The cosine is SentEval's, in the precision of the vectors, because published numbers depend on
    it. In float32 the last bit orders pairs of equal sentences, and it may differ between
    processors. STS12 SMTeuroparl, which has many such pairs, then differs by up to 0.001.

    A vector of zeros has cosine 0 with all.
    """
    if similarity != "cosine":
        measure = SimilarityFunction.to_similarity_pairwise_fn(similarity)
        return np.asarray(measure(_float64(a), _float64(b)).numpy().round(DECIMALS))

    first = np.asarray(a)
    second = np.asarray(b)
    first_lengths = np.sqrt(_row_products(first, first))
    second_lengths = np.sqrt(_row_products(second, second))
    return ratios(_row_products(first, second), first_lengths * second_lengths)


def _row_products(a: Vectors, b: Vectors) -> Vectors:
    """Dot products (N,) of the rows of a (N, D) and b (N, D), each as ``np.dot`` gives it."""
    return np.asarray(np.matmul(a[:, None, :], b[:, :, None])[:, 0, 0])


def _float64(vectors: Vectors) -> Tensor:
    return torch.from_numpy(np.asarray(vectors, dtype=np.float64))
