"""Alignment as a loss: positives lie close together (Wang & Isola, ICML 2020, Sec. 4.1.1, α = 2 = RankCSE Eq. 7).

https://arxiv.org/abs/2005.10242
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from isotrope.types import NonNegative, Scores


def alignment(
    anchors: Tensor,  # (N, D)
    positives: Tensor,  # (N, D) or (P, N, D)
) -> Tensor:
    """‖u_i − v_i‖², mean over anchors i and positives, rows divided by their norms -> (), in [0, 4]."""
    difference = F.normalize(anchors, dim=-1) - F.normalize(positives, dim=-1)
    return difference.square().sum(dim=-1).mean()


@dataclass(frozen=True)
class Alignment:
    """Pull positives together; alone it collapses the space: uniformity goes with it. BibTeX: wang2020hypersphere."""

    stage = "terms"
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        anchors, positives = scores.views.stack[0], scores.views.stack[1:]
        return self.weight * alignment(anchors, positives)
