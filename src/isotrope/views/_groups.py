"""Channels into shuffled groups and back, without a loop over groups or views."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isotrope.errors import UserError


def check_groups(key: str, groups: int, dim: int) -> None:
    """Refuse a number of groups that does not divide the dimension, and name the nearest that do."""
    if groups >= 1 and dim % groups == 0:
        return
    divisors = [number for number in range(1, dim + 1) if dim % number == 0]
    below = [number for number in divisors if number < groups][-1:]
    near = below + [number for number in divisors if number > groups][:1]
    raise UserError(f"{key} = {groups} does not divide the {dim} channels", f"choose {' or '.join(map(str, near))}")


def into_groups(z: Tensor, order: Tensor, groups: int) -> Tensor:
    """Channel ``order[i]`` goes to place i; C = D / G neighbours are a group. (P, N, D), (V, D) -> (V, G, C, N).

    Of V views and P passes, V / P views in a row are of the same pass.
    """
    passes, count, dim = z.shape
    repeated = z.mT.unsqueeze(1).expand(-1, len(order) // passes, -1, -1).flatten(0, 1)
    return _permute(repeated, order).view(len(order), groups, dim // groups, count)


def out_of_groups(x: Tensor, order: Tensor) -> Tensor:
    """Every channel back to its own place. (V, G, C, N), (V, D) -> (V, N, D)."""
    return _permute(x.flatten(1, 2), order.argsort(-1)).mT


def _permute(x: Tensor, order: Tensor) -> Tensor:
    """Row ``order[v, i]`` of matrix v goes to place i. (V, D, N), (V, D) -> (V, D, N)."""
    return _Permute.apply(x, order)  # type: ignore[no-any-return, no-untyped-call]


class _Permute(torch.autograd.Function):
    """Indexing whose gradient is indexing by the inverse. Autograd would add up, as if rows came twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x[_numbers(order), order]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grads[0][_numbers(order), order.argsort(-1)], None


def _numbers(order: Tensor) -> Tensor:
    return torch.arange(len(order), device=order.device)[:, None]
