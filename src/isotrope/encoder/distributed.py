"""Several processes: every rank computes the loss of the same, full batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    """Rows of all ranks, in order of rank; backward hands this rank the gradient of its own rows.

    All ranks compute the same loss from the same gathered rows, so all hold the same gradient and none need be sent.
    DDP averages the encoder's gradients over the ranks, where the full batch's gradient is their sum: hence the factor.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor, dim: int) -> Tensor:
        ctx.dim, ctx.size = dim, local.shape[dim]
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local.contiguous())
        return torch.cat(parts, dim=dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        own = gradients[0].narrow(ctx.dim, dist.get_rank() * ctx.size, ctx.size)
        return own * dist.get_world_size(), None


def process_rank() -> int:
    """This process's number among those that compute together; 0 where there is one alone."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def average_over_ranks(gradient: Tensor) -> Tensor:
    """The mean of all ranks' gradients of one weight, as DDP takes it; one process: unchanged."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return gradient
    mean = gradient.clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def gather_rows(local: Tensor, dim: int = 0) -> Tensor:
    """(…, n, …) of this rank -> (…, ranks · n, …) of all, with gradient; one process: unchanged."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1 or local.numel() == 0:
        return local
    return _Gather.apply(local, dim)  # type: ignore[no-any-return, no-untyped-call]
