"""How near two sets of vectors are, by the similarity that a model was made for.

A model says it as ``similarity_fn_name``, as sentence-transformers has it: the cosine (the default),
the dot product, or a distance, whose negative is the similarity.
"""

from typing import Any, Literal

import numpy as np
import torch
from sentence_transformers.util import SimilarityFunction
from torch import Tensor

from isotrope.encoder.embed import Vectors
from isotrope.types import Matrix, Vector

Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]

# Similarities that agree to so many decimals are ties: those of equal texts differ by rounding only.
DECIMALS = 12


def similarity_of(encoder: Any) -> Similarity:
    """The similarity that an encoder was made for; the cosine if it says nothing."""
    return getattr(encoder, "similarity_fn_name", None) or "cosine"


def similarities(queries: Vectors, corpus: Vectors, similarity: Similarity = "cosine") -> Matrix:
    """Similarities (Q, M) of queries (Q, D) and a corpus (M, D), in float64.

    A vector of zeros has cosine 0 with all.
    """
    measure = SimilarityFunction.to_similarity_fn(similarity)
    return np.asarray(measure(_float64(queries), _float64(corpus)).numpy())


def row_similarities(a: Vectors, b: Vectors, similarity: Similarity = "cosine") -> Vector:
    """Similarities (N,) of the rows of a (N, D) and b (N, D), in float64.

    They are rounded to 12 decimals, so that pairs of equal sentences are ties on every machine. In
    SentEval, which computes in float32, the last bit ranks such pairs: the correlation of STS12
    SMTeuroparl, which has many, differs by up to 0.001 from one processor to another.
    """
    measure = SimilarityFunction.to_similarity_pairwise_fn(similarity)
    return np.asarray(measure(_float64(a), _float64(b)).numpy().round(DECIMALS))


def _float64(vectors: Vectors) -> Tensor:
    return torch.from_numpy(np.asarray(vectors, dtype=np.float64))
