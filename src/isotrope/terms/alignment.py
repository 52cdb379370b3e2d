"""Alignment (α = 2) and uniformity (Wang & Isola, ICML 2020; RankCSE Eqs. 7, 8).
https://arxiv.org/abs/2005.10242
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def alignment(anchors: Tensor, positives: Tensor) -> Tensor:
    """‖u_i − v_i‖², mean over anchors i and positives, rows divided by their norms -> (), in [0,
    4].

    anchors (N, D), positives (N, D) or (P, N, D).
    """
    anchors = F.normalize(anchors, dim=-1)
    positives = F.normalize(positives, dim=-1)
    difference = anchors - positives
    return difference.square().sum(dim=-1).mean()


def uniformity(embeddings: Tensor, t: float = 2.0) -> Tensor:
    """Log of the mean over pairs i < j of e^{−t ‖u_i − u_j‖²}, rows divided by their norms; mean
    over views -> ().

    embeddings (N, D) or (V, N, D), N >= 2.
    """
    unit = F.normalize(embeddings, dim=-1)
    count = unit.shape[-2]
    first, second = torch.triu_indices(count, count, offset=1, device=unit.device)
    cosines = (unit @ unit.mT)[..., first, second]  # (…, N (N - 1) / 2)
    exponents = 2 * t * (cosines - 1)  # −t ‖u − v‖², as ‖u − v‖² = 2 − 2 u·v
    log_mean = exponents.logsumexp(dim=-1) - math.log(len(first))
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
        return self.weight * alignment(stack[0], stack[1:])


@dataclass(frozen=True)
class Uniformity:
    """Push all sentences of a view apart; mean over the views, as the source has it. BibTeX:
    wang2020hypersphere.
    """

    stage = "terms"
    t: AboveZero = 2.0
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * uniformity(scores.views.stack, self.t)
