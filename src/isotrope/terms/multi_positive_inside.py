"""WhitenedCSE Eq. 8, which the paper compares with Eq. 7 (`infonce`).
https://aclanthology.org/2023.acl-long.677
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def multi_positive_inside(
    cosines: Tensor,  # (P, N, M), M >= N; -inf takes a candidate out of the denominator
    temperature: float,
    weight: float = 1.0,  # λ > 0
    printed: bool = False,
) -> Tensor:
    """Eq. 8 as its text means it: log Σ_p λ Σ_j e^{s_pj/τ} / e^{s_pi/τ}, mean over anchors i -> ().

    The positive of anchor i is on the diagonal, j = i. The positive with the least similarity rules
    the sum, so that it is "punished" most. ``printed``: -log Σ_p λ e^{-s_pi/τ} / Σ_j e^{s_pj/τ}, as
    Eq. 8 stands; descending it pushes positives *away*, so it is for study alone.
    """
    logits = cosines / temperature
    positive = logits.diagonal(dim1=-2, dim2=-1)  # (P, N)
    partition = logits.logsumexp(dim=-1)  # log Σ_j e^{s_pj/τ}, (P, N)

    sign = -1 if printed else 1
    log_ratio = sign * partition - positive  # (P, N)
    log_sum = math.log(weight) + log_ratio.logsumexp(dim=0)  # (N,)
    return sign * log_sum.mean()


@dataclass(frozen=True)
class MultiPositiveInside:
    """Pull the farthest positive of every anchor hardest. BibTeX: zhuo2023whitenedcse."""

    stage = "terms"
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0  # of the term; λ is 1, since it only adds log λ
    printed: bool = False

    def __call__(self, scores: Scores) -> Tensor:
        cosines = scores.cosines.masked_fill(scores.keep == 0, -torch.inf)
        loss = multi_positive_inside(cosines, self.temperature, printed=self.printed)
        return self.weight * loss
