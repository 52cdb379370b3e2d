"""NT-Xent: SimCLR's loss, in ConSERT (Yan et al., ACL 2021).
https://aclanthology.org/2021.acl-long.393
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.types import AboveZero, NonNegative, Scores


def nt_xent(
    a: Tensor,  # (N, D)
    b: Tensor,  # (N, D)
    temperature: float,
) -> Tensor:
    """-log e^{s_ij/τ} / Σ_{k≠i} e^{s_ik/τ}, mean over all 2N anchors i -> ().

    s are the cosines of all 2N rows, a before b. j is the other view of anchor i's sentence. So the
    negatives are the 2N - 2 views of other sentences, in both views.
    """
    rows = torch.cat([a, b])  # (2N, D)
    unit = F.normalize(rows, dim=-1)
    logits = unit @ unit.T / temperature  # (2N, 2N)
    logits = logits.masked_fill(on_diagonal(logits), -torch.inf)

    numbers = torch.arange(len(rows), device=rows.device)
    positives = numbers.roll(len(a))  # (2N,)
    return F.cross_entropy(logits, positives)


@dataclass(frozen=True)
class NTXent:
    """Each view looks for the other one among all; mean over the positives. BibTeX: yan2021consert.

    It compares sentences alone: candidates and removals of score steps have no place in it.
    """

    stage = "terms"
    temperature: AboveZero = 0.1
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        anchors, *positives = scores.views.stack
        losses = [nt_xent(anchors, positive, self.temperature) for positive in positives]
        return self.weight * torch.stack(losses).mean()
