"""Lists of a batch: row i holds the scores of anchor i with every sentence, its positive on the diagonal."""

from __future__ import annotations

import torch
from torch import Tensor


def without_positive(lists: Tensor) -> Tensor:
    """(…, N, N) -> (…, N, N - 1): each list without its diagonal element, the others in their order."""
    count = lists.shape[-1]
    others = ~torch.eye(count, dtype=torch.bool, device=lists.device)
    return lists[..., others].reshape(*lists.shape[:-1], count - 1)
