"""Σ^-1/2 with a backward that is finite at equal eigenvalues, where autograd through ``eigh`` is
NaN.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isotrope.errors import UserError

Method = Literal["zca", "pca"]


def inverse_sqrt(covariance: Tensor, method: Method = "zca") -> Tensor:
    """Whitening matrices W with Wᵀ Σ W = I: U Λ^-1/2 Uᵀ (zca) or U Λ^-1/2 (pca). (…, C, C) -> (…,
    C, C).

    pca: columns by rising eigenvalue, the largest entry of each positive. A direction without
    variance (its eigenvalue below rounding) gets no output and no gradient: W is zero there, as the
    centred features are.
    """
    try:
        matrices: Tensor = _InverseSqrt.apply(covariance, method)  # type: ignore[no-untyped-call]
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        remedy = "lower train.learning_rate, or set train.precision = fp32"
        problem = "the embeddings to whiten are not finite"
        raise UserError(problem, remedy, "not-finite") from error
    return matrices


class _InverseSqrt(torch.autograd.Function):
    """The derivative of a function of a symmetric matrix, by Daleckii and Krein (Bhatia, Matrix
    Analysis, V.3).
    """

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, method: Method) -> Tensor:
        values, vectors = eigen(covariance)  # (..., C) rising, (..., C, C)

        # Directions without variance get no output.
        smallest = _rounding(values) * values[..., -1:]
        has_variance = values > smallest.clamp(min=0)
        root = torch.where(has_variance, values, 1).sqrt()
        inverse = torch.where(has_variance, 1 / root, 0)

        if method == "pca":  # eigenvectors have no sign of their own
            largest = vectors.abs().argmax(-2, keepdim=True)
            vectors = vectors * vectors.gather(-2, largest).sign()
        ctx.method = method
        ctx.save_for_backward(values, vectors, root, inverse)
        scaled = vectors * inverse[..., None, :]
        return scaled @ vectors.mT if method == "zca" else scaled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, vectors, root, inverse = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            # The gradient in the basis of the eigenvectors, (..., C, C).
            inner = vectors.mT @ grads[0]
            if ctx.method == "zca":
                inner = inner @ vectors * _zca_quotient(root, inverse)
            else:
                turn = _pca_turn(values, inverse)
                inner = inner * (turn - torch.diag_embed(inverse**3) / 2)
            return vectors @ (inner + inner.mT) @ vectors.mT / 2, None


def _zca_quotient(root: Tensor, inverse: Tensor) -> Tensor:
    """(λi^-1/2 - λj^-1/2) / (λi - λj), written so that λi = λj is no special case. λ^1/2 and λ^-1/2
    (…, C) -> (…, C, C).
    """
    sums = root[..., :, None] + root[..., None, :]
    return -inverse[..., :, None] * inverse[..., None, :] / sums


def _pca_turn(values: Tensor, inverse: Tensor) -> Tensor:
    """λj^-1/2 / (λj - λi): how eigenvectors turn. Where the two are equal, they have no derivative,
    and get none. λ and λ^-1/2 (…, C) -> (…, C, C).
    """
    gap = values[..., None, :] - values[..., :, None]
    differs = gap.abs() > _rounding(values) * values[..., -1:, None]
    return torch.where(differs, 1 / torch.where(differs, gap, 1), 0) * inverse[..., None, :]


def _rounding(values: Tensor) -> float:
    """What of the largest of C eigenvalues may be rounding."""
    return 4 * values.shape[-1] * torch.finfo(values.dtype).eps


def eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues (…, C) and their vectors as columns (…, C, C) of symmetric matrices (…, C,
    C).

    One or two channels, which is WhitenedCSE's own size of a group, need one rotation, in float64.
    Nothing waits for the device then; ``eigh`` would wait for a GPU, to ask whether all converged.
    """
    if matrices.shape[-1] > 2:
        return torch.linalg.eigh(matrices)  # type: ignore[no-any-return]
    if matrices.device.type == "cpu" and not matrices.isfinite().all():
        raise torch.linalg.LinAlgError("a matrix is not finite")  # type: ignore[attr-defined]
    if matrices.shape[-1] == 1:
        return matrices[..., 0], torch.ones_like(matrices)
    has_float64 = matrices.device.type != "mps"  # Apple's GPUs do not
    values, vectors = _rotate(matrices.double() if has_float64 else matrices)
    return values.to(matrices), vectors.to(matrices)


def _rotate(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """`eigen` of matrices (…, 2, 2), by one rotation."""
    first = matrices[..., 0, 0]
    second = matrices[..., 1, 1]
    between = matrices[..., 0, 1]

    # With a right angle more, exactly, a channel without variance does not mix with the other.
    swap = second < first
    angle = torch.atan2(2 * torch.where(swap, -between, between), (second - first).abs()) / 2
    cos = torch.where(swap, -angle.sin(), angle.cos())
    sin = torch.where(swap, angle.cos(), angle.sin())

    low = cos * (cos * first - sin * between) - sin * (cos * between - sin * second)
    high = sin * (sin * first + cos * between) + cos * (sin * between + cos * second)
    columns = [torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)]
    return torch.stack([low, high], dim=-1), torch.stack(columns, dim=-2)
