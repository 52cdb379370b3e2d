"""Channels into shuffled groups and back, without a loop over groups or views."""

from __future__ import annotations

import torch
from torch import Tensor

from isotrope.errors import UserError


def check_groups(key: str, groups: int, dim: int) -> None:
    """Refuse a number of groups that does not divide the dimension, and name the nearest that do."""
    if groups >= 1 and dim % groups == 0:
        return
    divisors = [number for number in range(1, dim + 1) if dim % number == 0]
    below = [number for number in divisors if number < groups][-1:]
    near = below + [number for number in divisors if number > groups][:1]
    raise UserError(f"{key} = {groups} does not divide the {dim} channels", f"choose {' or '.join(map(str, near))}")


def split(z: Tensor, order: Tensor, groups: int) -> Tensor:
    """Channel ``order[i]`` goes to place i; C = D / G neighbours are a group. (…, N, D), (…, D) -> (…, G, N, C)."""
    shuffled = z.gather(-1, order[..., None, :].expand_as(z))
    return shuffled.view(*z.shape[:-1], groups, z.shape[-1] // groups).transpose(-3, -2)


def join(x: Tensor, order: Tensor) -> Tensor:
    """The inverse of ``split``. (…, G, N, C), (…, D) -> (…, N, D)."""
    z = x.transpose(-3, -2).flatten(-2)
    return z.gather(-1, order.argsort(-1)[..., None, :].expand_as(z))


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (…, 1, C) and covariance over N, not N - 1, (…, C, C) of the rows x (…, N, C).

    Counted from the first row, so that a constant channel has no variance at all, whatever its size.
    """
    first = x[..., :1, :].detach()
    mean = first + (x - first).mean(-2, keepdim=True)
    centred = x - mean
    return mean, centred.mT @ centred / x.shape[-2]


def ridge(covariance: Tensor, eps: float) -> Tensor:
    """Σ + eps·I."""
    return covariance + eps * torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
