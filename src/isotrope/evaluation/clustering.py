"""Clustering: do texts of one class lie together, so that k-means finds the classes again?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import normalize

from isotrope.encoder.embed import Vectors

RUNS = 5  # k-means depends on where it starts


def v_measures(
    vectors: Vectors, labels: npt.NDArray[np.int64], runs: int = RUNS, seed: int = 0
) -> npt.NDArray[np.float64]:
    """V-measure of k-means on unit rows (N, D) with as many clusters as there are classes (N,): (runs,), as fractions.

    Each run has its own start, k-means++ seeded by `seed` + run. Fewer distinct vectors than classes give fewer
    clusters, so a collapsed encoder scores 0.
    Source: Rosenberg and Hirschberg, EMNLP 2007, https://aclanthology.org/D07-1043.
    """
    rows = normalize(np.asarray(vectors, dtype=np.float32))
    clusters = min(len(np.unique(labels)), len(np.unique(rows, axis=0)))
    found = [KMeans(clusters, n_init=1, random_state=seed + run).fit_predict(rows) for run in range(runs)]
    return np.array([v_measure_score(labels, assigned) for assigned in found])
