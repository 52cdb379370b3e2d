"""Mean and covariance of groups of channels, with a backward of few products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
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
