"""IsoScore by the steps of its Algorithm 1, one after the other (Rudman et al., Findings of ACL
2022).
"""

import math

import numpy as np


def iso_score(points: np.ndarray) -> float:
    """Points (N, n) -> score: reorient by PCA, take the variances, normalise, measure the defect,
    rescale.
    """
    count, n = points.shape
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred / (count - 1))
    reoriented = centred @ axes
    variances = [sum(value**2 for value in column) / (count - 1) for column in reoriented.T]
    length = math.sqrt(sum(v**2 for v in variances))
    normalised = [math.sqrt(n) * v / length for v in variances]
    defect = math.sqrt(sum((v - 1) ** 2 for v in normalised)) / math.sqrt(2 * (n - math.sqrt(n)))
    # of the dimensions that are used evenly
    share = (n - defect**2 * (n - math.sqrt(n))) ** 2 / n**2
    return (n * share - 1) / (n - 1)
