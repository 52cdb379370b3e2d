"""The diagonal of a batch's cosines: each sentence with itself, or with its positive."""

import torch
from torch import Tensor


def on_diagonal(lists: Tensor) -> Tensor:
    """Lists (…, N, M) -> (N, M) bool: true where i = j."""
    return torch.eye(*lists.shape[-2:], dtype=torch.bool, device=lists.device)
