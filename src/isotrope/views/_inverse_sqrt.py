"""Σ^-1/2 with a backward that is finite at equal eigenvalues, where autograd through ``eigh`` is NaN."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isotrope.errors import UserError

Method = Literal["zca", "pca"]
_SWEEPS = {1: 0, 2: 1, 3: 5, 4: 6}  # C -> sweeps of rotations that reach rounding; for C = 2, one rotation is exact


def inverse_sqrt(covariance: Tensor, method: Method = "zca") -> Tensor:
    """Whitening matrices W with Wᵀ Σ W = I: U Λ^-1/2 Uᵀ (zca) or U Λ^-1/2 (pca). (…, C, C) -> (…, C, C).

    pca: columns by rising eigenvalue, the largest entry of each positive. A direction without variance (its eigenvalue
    below rounding) gets no output and no gradient: W is zero there, as the centred features are.
    """
    try:
        return _InverseSqrt.apply(covariance, method)  # type: ignore[no-any-return, no-untyped-call]
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise UserError(
            "the embeddings to whiten are not finite", "lower train.learning_rate, or set train.precision = fp32"
        ) from error


class _InverseSqrt(torch.autograd.Function):
    """The derivative of a function of a symmetric matrix, by Daleckii and Krein (Bhatia, Matrix Analysis, V.3)."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, method: Method) -> Tensor:
        values, vectors = eigen(covariance)  # (..., C) rising, (..., C, C)
        smallest = _rounding(values) * values[..., -1:]
        live = values > smallest.clamp(min=0)
        root = torch.where(live, values, 1).sqrt()
        inverse = torch.where(live, 1 / root, 0)
        if method == "pca":  # eigenvectors have no sign of their own
            vectors = vectors * vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).sign()
        ctx.method = method
        ctx.save_for_backward(values, vectors, root, inverse)
        scaled = vectors * inverse[..., None, :]
        return scaled @ vectors.mT if method == "zca" else scaled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, vectors, root, inverse = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            inner = vectors.mT @ grads[0]  # the gradient in the basis of the eigenvectors, (..., C, C)
            if ctx.method == "zca":
                # (λi^-1/2 - λj^-1/2) / (λi - λj), written so that λi = λj is no special case
                quotient = -inverse[..., :, None] * inverse[..., None, :] / (root[..., :, None] + root[..., None, :])
                inner = inner @ vectors * quotient
            else:
                # Eigenvectors turn by 1 / (λj - λi): where the two are equal, they have no derivative, and get none.
                gap = values[..., None, :] - values[..., :, None]
                apart = gap.abs() > _rounding(values) * values[..., -1:, None]
                turn = torch.where(apart, 1 / torch.where(apart, gap, 1), 0) * inverse[..., None, :]
                inner = inner * (turn - torch.diag_embed(inverse**3) / 2)
            return vectors @ (inner + inner.mT) @ vectors.mT / 2, None


def _rounding(values: Tensor) -> float:
    """What of the largest of C eigenvalues may be rounding."""
    return 4 * values.shape[-1] * torch.finfo(values.dtype).eps


def eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues (…, C) and their vectors as columns (…, C, C) of symmetric matrices (…, C, C).

    By `rotations` up to C = 2, and up to C = 4 on a GPU, which ``torch.linalg.eigh`` would wait for, to ask whether all
    converged. (On a CPU nothing waits, and LAPACK is faster from C = 3: see docs/performance.md.)
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
