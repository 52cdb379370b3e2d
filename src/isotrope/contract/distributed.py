"""Several processes: every rank computes the loss of the same, full batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class _Gather(torch.autograd.Function):
    """Rows of all ranks, in order of rank; backward hands this rank the gradient of its own rows.

    All ranks compute the same loss from the same gathered rows, so all hold the same gradient and
    none need be sent. DDP averages the encoder's gradients over the ranks, where the full batch's
    gradient is their sum: hence the factor.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return _of_all(local, dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ranks = dist.get_world_size()
        gradients_of_ranks = gradients[0].chunk(ranks, ctx.dim)
        own_gradient = gradients_of_ranks[dist.get_rank()]
        return own_gradient * ranks, None


class _Own(torch.autograd.Function):
    """The opposite of `_Gather`, whose factor it takes away: what is before it has the full batch's
    gradient again.
    """

    @staticmethod
    def forward(ctx: Any, full: Tensor) -> Tensor:
        rows_of_ranks = full.chunk(dist.get_world_size())
        return rows_of_ranks[dist.get_rank()].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = _of_all(gradients[0], 0)
        return gradient / dist.get_world_size()


def _of_all(local: Tensor, dim: int) -> Tensor:
    ranks = dist.get_world_size()
    gathered = [torch.empty_like(local) for _ in range(ranks)]
    dist.all_gather(gathered, local.contiguous())
    return torch.cat(gathered, dim=dim)


def rank_count() -> int:
    """How many processes compute together."""
    if not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size()


def process_rank() -> int:
    """This process's number among those that compute together."""
    return dist.get_rank() if rank_count() > 1 else 0


def gather_rows(local: Tensor, dim: int = 0) -> Tensor:
    """(…, n, …) of this rank -> (…, ranks · n, …) of all, with gradient; one process: unchanged."""
    if rank_count() == 1 or local.numel() == 0:
        return local
    return _Gather.apply(local, dim)  # type: ignore[no-any-return, no-untyped-call]


def own_rows(full: Tensor) -> Tensor:
    """(ranks · n, …) of all -> (n, …) of this rank, with gradient; one process: unchanged."""
    return _Own.apply(full) if rank_count() > 1 else full  # type: ignore[no-untyped-call]


def mean_of_all(values: Tensor) -> Tensor:
    """(n,) of this rank -> () the mean of all ranks' values, however many each has; 0 if there are
    none.
    """
    own_count = values.new_tensor(len(values))
    sum_and_count = torch.stack([values.sum(), own_count])
    by_rank = gather_rows(sum_and_count[None])  # (ranks, 2)
    total, count = by_rank.sum(dim=0)
    mean: Tensor = total / count.clamp(min=1)
    return mean


def average_over_ranks(gradient: Tensor) -> Tensor:
    """The mean of all ranks' gradients of one weight, as DDP takes it; one process: unchanged."""
    ranks = rank_count()
    if ranks == 1:
        return gradient
    mean = gradient.clone()
    dist.all_reduce(mean)
    return mean / ranks


def averaged(module: nn.Module) -> nn.Module:
    """The module, whose weights get the mean of all ranks' gradients: for one that reads the rank's
    own sentences.

    The trainer does so for the student alone. What reads the full batch has equal gradients on all
    ranks.
    """
    for weight in module.parameters():
        if weight.requires_grad:
            weight.register_hook(average_over_ranks)  # type: ignore[no-untyped-call]
    return module
