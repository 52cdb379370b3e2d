"""RankEncoder (Seonwoo et al., ACL 2023, Sec. 3). https://aclanthology.org/2023.acl-long.879"""

import numpy as np
from scipy.stats import rankdata
from sklearn.preprocessing import normalize

from isotrope.post.fitted import PostStep, Transform
from isotrope.types import Count, Matrix

_BLOCK = 512  # rows whose ranks are made at once


def ranks(vectors: Matrix) -> Transform:
    """Rows x (N, D) -> unit rows (N, M) of the ranks of their cosines with ``vectors`` (M, D).

    Ranks are centred, and equal cosines share a rank. So the cosine of two results is Spearman's
    correlation of the two lists of cosines.
    """
    corpus = normalize(vectors)

    def ranked(x: Matrix) -> Matrix:
        cosines = normalize(x) @ corpus.T  # (n, M)
        cosine_ranks = rankdata(cosines, axis=1)
        mean_rank = (len(corpus) + 1) / 2
        unit: Matrix = normalize(cosine_ranks - mean_rank)
        return unit

    def transform(x: Matrix) -> Matrix:
        blocks = []
        for start in range(0, max(1, len(x)), _BLOCK):
            block = ranked(x[start : start + _BLOCK])
            blocks.append(block)
        return np.concatenate(blocks)

    return transform


class Ranks(PostStep):
    """``+ranks``: how near a text is to each sentence of a corpus, as ranks. BibTeX:
    seonwoo2023rankencoder.

    It is no linear map, so it cannot be saved into a model: name the step where you evaluate.
    """

    # sentences to be ranked, the first of those that it is fitted on; all by default
    k: Count | None = None

    def fitted(self, vectors: Matrix) -> Transform:
        return ranks(vectors[: self.k])
