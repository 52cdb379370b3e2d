"""Mean and covariance of channels: of a batch, with a backward of few products, and followed from batch to batch.

Zhuo et al., ACL 2023, Sec. 5.2, Eq. 13. https://aclanthology.org/2023.acl-long.677
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def centre(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (…, C, 1) of x (…, C, N), and x without it.

    Counted from the first sentence, so that a constant channel has no variance at all, whatever its size.
    """
    first = x[..., :1].detach()
    mean = first + (x - first).mean(-1, keepdim=True)
    return mean, x - mean


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Features (V, G, C, N) -> the same less their mean, and their covariance over N, not N - 1, (V, G, C, C)."""
    return _Moments.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def ridge(covariance: Tensor, eps: float) -> Tensor:
    """Σ + eps·I."""
    return covariance + eps * torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)


class _Moments(torch.autograd.Function):
    """The joint gradient of the two is one product, centred; autograd goes through the features many times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        centred = centre(x)[1]
        ctx.save_for_backward(centred)
        return centred, centred @ centred.mT / x.shape[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (centred,) = ctx.saved_tensors
        direct, covariance = (grad.flatten(0, 1) for grad in grads)
        with torch.autocast(centred.device.type, enabled=False):
            both = (covariance + covariance.mT) / centred.shape[-1]
            grad = torch.baddbmm(direct, both, centred.flatten(0, 1)).view_as(centred)
            return grad - grad.mean(-1, keepdim=True)


class Momentum(nn.Module):
    """Eq. 13: μ ← β μ + (1 − β) x̄, Σ ← β Σ + (1 − β) σ; starts at the first batch's mean and mean variance."""

    mean: Tensor  # (D,)
    covariance: Tensor  # (D, D): whole, since every shuffle takes other blocks of it
    batches: Tensor  # () how many the two have seen

    def __init__(self, dim: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("covariance", torch.eye(dim))
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, rows: Tensor, before: bool = False) -> tuple[Tensor, Tensor]:
        """Count the rows (N, D) -> mean (D,), covariance (D, D): with these rows and their gradient, or ``before``."""
        middle, centred = centre(rows.mT)  # (D, 1), (D, N)
        self._begin(middle[:, 0].detach(), centred.detach().square().mean())
        mean, covariance = past = self.kept(rows)
        mean = torch.lerp(middle[:, 0], mean, self.beta)
        covariance = torch.addmm(covariance, centred, centred.mT, beta=self.beta, alpha=(1 - self.beta) / len(rows))
        self.mean = mean.detach().to(self.mean)
        self.covariance = covariance.detach().to(self.covariance)
        self.batches.add_(1)
        return past if before else (mean, covariance)

    def kept(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What the batches so far have left -> mean (D,), covariance (D, D), in the precision of ``like``."""
        return self.mean.to(like), self.covariance.to(like)

    def _begin(self, mean: Tensor, variance: Tensor) -> None:
        """Before the first batch; whether it is the first is decided where the tensors are: nobody waits for a GPU."""
        first, diagonal = self.batches == 0, self.covariance.diagonal()  # off the diagonal is nothing yet
        self.mean.copy_(torch.where(first, mean, self.mean))
        diagonal.copy_(torch.where(first, variance, diagonal))


def blocks(statistics: tuple[Tensor, Tensor], order: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Mean (V, G, C, 1) and covariance (V, G, C, C) of each view's groups, for orders (V, D) of the channels."""
    mean, covariance = statistics
    place = order.view(len(order), groups, -1)  # (V, G, C)
    return mean[place].unsqueeze(-1), covariance[place[..., :, None], place[..., None, :]]
