"""Eigenvalues and eigenvectors of many small symmetric matrices at once, on any device, without waiting for it."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

_SWEEPS = {1: 0, 2: 1, 3: 5, 4: 6}  # C -> sweeps of rotations that reach rounding; for C = 2, one rotation is exact


def eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues (…, C) and their vectors as columns (…, C, C) of symmetric matrices (…, C, C).

    By `rotations` up to C = 2, and up to C = 4 on a GPU, which ``torch.linalg.eigh`` would wait for, to ask whether all
    converged. (On a CPU nothing waits, and LAPACK is faster from C = 3: see docs/performance.md.)

    Raises:
        torch.linalg.LinAlgError: a matrix is not finite. Rotations on a GPU do not look: their result is NaN.
    """
    on_cpu = matrices.device.type == "cpu"
    if matrices.shape[-1] > (2 if on_cpu else 4):
        return torch.linalg.eigh(matrices)  # type: ignore[no-any-return]
    if on_cpu and not matrices.isfinite().all():
        raise torch.linalg.LinAlgError("a matrix is not finite")  # type: ignore[attr-defined]
    return rotations(matrices)


def rotations(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """`eigen` for C <= 4 by Jacobi's method: cyclic, inside in float64, with as many rotations for every matrix.

    No branch asks for a number, so that no device is waited for. Each rotation also sorts its two diagonal entries.
    That leaves equal eigenvalues side by side, without which some matrices of 4 channels converge slowly (Wilkinson,
    Note on the quadratic convergence of the cyclic Jacobi process, Numerische Mathematik 4, 1962).
    """
    size = matrices.shape[-1]
    # (2C, C, B): the matrices, becoming diagonal, over their eigenvectors
    start = torch.eye(size, dtype=_widest(matrices), device=matrices.device)[..., None]
    flat = matrices.to(start).reshape(-1, size, size).permute(1, 2, 0)
    both = torch.cat([flat, start.expand_as(flat)])
    for _ in range(_SWEEPS[size]):
        for p, q in combinations(range(size), 2):
            cos, sin = _angle(both[p, p], both[q, q], both[p, q])
            both[:, p], both[:, q] = _turn(both[:, p], both[:, q], cos, sin)
            both[p], both[q] = _turn(both[p], both[q], cos, sin)
    values, vectors = both[:size].diagonal(), both[size:].permute(2, 0, 1)
    return values.reshape(matrices.shape[:-1]).to(matrices), vectors.reshape(matrices.shape).to(matrices)


def _angle(first: Tensor, second: Tensor, between: Tensor) -> tuple[Tensor, Tensor]:
    """The turn (cos, sin) that diagonalises [[first, between], [between, second]], the smaller value first."""
    gap = second - first
    swap = gap < 0  # a right angle more, exactly: a channel without variance does not mix with others
    half = torch.atan2(2 * torch.where(swap, -between, between), gap.abs()) / 2
    cos, sin = half.cos(), half.sin()
    return torch.where(swap, -sin, cos), torch.where(swap, cos, sin)


def _turn(x: Tensor, y: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return cos * x - sin * y, sin * x + cos * y


def _widest(x: Tensor) -> torch.dtype:
    return x.dtype if x.device.type == "mps" else torch.float64  # which Apple's GPUs do not have
