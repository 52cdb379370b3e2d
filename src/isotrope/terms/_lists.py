"""Lists of a batch: row i is that of anchor i, with its positives and the other sentences."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def without_positive(lists: Tensor) -> Tensor:
    """(…, N, N) -> (…, N, N - 1): each list without its diagonal element, the positive; the others in their order."""
    count = lists.shape[-1]
    others = ~torch.eye(count, dtype=torch.bool, device=lists.device)
    return lists[..., others].reshape(*lists.shape[:-1], count - 1)


def group_list(
    anchor: Tensor,  # (N, D)
    positives: Tensor,  # (P, N, D)
    others: Tensor,  # (N, D) row j of another sentence is a negative
    temperature: float,
) -> Tensor:
    """A sentence among its positives and the others, as logarithms of probabilities (N, P + N − 1).

    The softmax of cos(a_i, p_ri)/τ of P positives, then cos(a_i, o_j)/τ of all j ≠ i.
    """
    anchor, positives, others = (F.normalize(each, dim=-1) for each in (anchor, positives, others))
    own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    near, far = (anchor * positives).sum(dim=-1).T, (anchor @ others.T)[~own].view(len(anchor), -1)
    return (torch.cat([near, far], dim=1) / temperature).log_softmax(dim=1)
