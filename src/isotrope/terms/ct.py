"""Contrastive Tension: the dot product of two encoders' embeddings says whether they read the same sentence.

Carlsson et al., ICLR 2021, Sec. 3. https://openreview.net/forum?id=Ov_sMNau-PF. The paper draws seven negatives for
each positive. Here all other sentences of the batch are negatives.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import NonNegative, Scores


def ct(a: Tensor, b: Tensor) -> Tensor:
    """Binary cross-entropy with logits a_i · b_j, target 1 for i = j and else 0, mean over all N · N. (N, D) -> ()."""
    logits = a @ b.T  # (N, N)
    return F.binary_cross_entropy_with_logits(logits, torch.eye(len(a), dtype=logits.dtype, device=logits.device))


@dataclass(frozen=True)
class CT:
    """Same sentence or not, from dot products; lengths count. Mean over the positives. BibTeX: carlsson2021tension."""

    stage = "terms"
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        anchors, *positives = scores.views.stack
        return self.weight * torch.stack([ct(anchors, positive) for positive in positives]).mean()
