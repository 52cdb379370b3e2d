"""A sentence's place among its positives and the other sentences, as one list of probabilities."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def group_list(
    anchor: Tensor,  # (N, D)
    positives: Tensor,  # (P, N, D)
    others: Tensor,  # (N, D) row j of another sentence is a negative
    temperature: float,
) -> Tensor:
    """Softmax of cos(a_i, p_ri)/τ of P positives, then cos(a_i, o_j)/τ of all j ≠ i; its logarithm (N, P + N − 1)."""
    anchor, positives, others = (F.normalize(each, dim=-1) for each in (anchor, positives, others))
    own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    near, far = (anchor * positives).sum(dim=-1).T, (anchor @ others.T)[~own].view(len(anchor), -1)
    return (torch.cat([near, far], dim=1) / temperature).log_softmax(dim=1)
