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
        return _InverseSqrt.apply(covariance, method)  # type: ignore[no-any-return, no-untyped-call]
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        remedy = "lower train.learning_rate, or set train.precision = fp32"
        raise UserError("the embeddings to whiten are not finite", remedy) from error


class _InverseSqrt(torch.autograd.Function):
    """The derivative of a function of a symmetric matrix, by Daleckii and Krein (Bhatia, Matrix
    Analysis, V.3).
    """

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
            # the gradient in the basis of the eigenvectors, (..., C, C)
            inner = vectors.mT @ grads[0]
            if ctx.method == "zca":
                # (λi^-1/2 - λj^-1/2) / (λi - λj), written so that λi = λj is no special case
                quotient = (
                    -inverse[..., :, None]
                    * inverse[..., None, :]
                    / (root[..., :, None] + root[..., None, :])
                )
                inner = inner @ vectors * quotient
            else:
                # Eigenvectors turn by 1 / (λj - λi): where the two are equal, they have no
                # derivative, and get none.
                gap = values[..., None, :] - values[..., :, None]
                apart = gap.abs() > _rounding(values) * values[..., -1:, None]
                turn = torch.where(apart, 1 / torch.where(apart, gap, 1), 0) * inverse[..., None, :]
                inner = inner * (turn - torch.diag_embed(inverse**3) / 2)
            return vectors @ (inner + inner.mT) @ vectors.mT / 2, None


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
    # Apple's GPUs do not have float64.
    precise = matrices if matrices.device.type == "mps" else matrices.double()
    first, second, between = precise[..., 0, 0], precise[..., 1, 1], precise[..., 0, 1]
    # a right angle more, exactly: a channel without variance does not mix with the other
    swap = second < first
    angle = torch.atan2(2 * torch.where(swap, -between, between), (second - first).abs()) / 2
    cos, sin = (
        torch.where(swap, -angle.sin(), angle.cos()),
        torch.where(swap, angle.cos(), angle.sin()),
    )
    low = cos * (cos * first - sin * between) - sin * (cos * between - sin * second)
    high = sin * (sin * first + cos * between) + cos * (sin * between + cos * second)
    vectors = torch.stack(
        [torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)], dim=-2
    )
    return torch.stack([low, high], dim=-1).to(matrices), vectors.to(matrices)
