"""Alignment (α = 2) and uniformity (Wang & Isola, ICML 2020; RankCSE Eqs. 7, 8).
https://arxiv.org/abs/2005.10242
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def alignment(
    anchors: Tensor,  # (N, D)
    positives: Tensor,  # (N, D) or (P, N, D)
) -> Tensor:
    """‖u_i − v_i‖², mean over anchors i and positives, rows divided by their norms -> (), in [0,
    4].
    """
    anchors = F.normalize(anchors, dim=-1)
    positives = F.normalize(positives, dim=-1)
    difference = anchors - positives
    distances = difference.square().sum(dim=-1)
    return distances.mean()


def uniformity(
    embeddings: Tensor,  # (N, D) or (V, N, D), N >= 2
    t: float = 2.0,
) -> Tensor:
    """Log of the mean over pairs i < j of e^{−t ‖u_i − u_j‖²}, rows divided by their norms; mean
    over views -> ().
    """
    unit = F.normalize(embeddings, dim=-1)
    count = unit.shape[-2]
    first, second = torch.triu_indices(count, count, offset=1, device=unit.device)
    cosines = unit @ unit.mT
    cosines = cosines[..., first, second]  # (…, N (N - 1) / 2)
    exponents = 2 * t * (cosines - 1)  # −t ‖u − v‖², as ‖u − v‖² = 2 − 2 u·v

    log_sum = exponents.logsumexp(dim=-1)
    log_mean = log_sum - math.log(len(first))
    return log_mean.mean()


@dataclass(frozen=True)
class Alignment:
    """Pull positives together; alone it collapses the space: uniformity goes with it. BibTeX:
    wang2020hypersphere.
    """

    stage = "terms"
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        stack = scores.views.stack
        loss = alignment(stack[0], stack[1:])
        return self.weight * loss


@dataclass(frozen=True)
class Uniformity:
    """Push all sentences of a view apart; mean over the views, as the source has it. BibTeX:
    wang2020hypersphere.
    """

    stage = "terms"
    t: AboveZero = 2.0
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        loss = uniformity(scores.views.stack, self.t)
        return self.weight * loss
