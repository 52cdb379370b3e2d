"""All-but-the-top: vectors without their mean and without the few directions that most of their variance lies in.

Mu and Viswanath, All-but-the-Top, ICLR 2018, Algorithm 1, https://arxiv.org/abs/1702.01417.
"""

import numpy as np

from isotrope.errors import UserError
from isotrope.post.fitted import LinearStep
from isotrope.types import Count, Matrix


def removal(vectors: Matrix, k: int = 1) -> tuple[Matrix, Matrix]:
    """Mean μ (D,) and W = I − U Uᵀ (D, D) of vectors (N, D); the result of x is (x − μ) W.

    U (D, k) are the directions of largest variance. The paper projects x and not x − μ onto U. That adds one constant
    to all vectors, (U Uᵀ) μ; here the result stays centred.
    """
    dim = vectors.shape[1]
    if k >= min(len(vectors), dim):
        raise UserError(f"removal of k = {k} directions of {vectors.shape} vectors", "choose a smaller k")
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    top = np.linalg.eigh(centred.T @ centred / len(vectors))[1][:, -k:]  # (D, k); eigh gives rising variances
    return mean, np.eye(dim) - top @ top.T


class Removal(LinearStep):
    """``+removal``: all-but-the-top. BibTeX: mu2018allbutthetop.

    Attributes:
        k: directions taken away, of the largest variance. The paper takes about D / 100 for word vectors.
    """

    k: Count = 1

    def linear(self, vectors: Matrix) -> tuple[Matrix, Matrix]:
        return removal(vectors, self.k)
