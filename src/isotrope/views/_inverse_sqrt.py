"""Σ^-1/2 with a backward that is finite at equal eigenvalues.

Autograd through ``torch.linalg.eigh`` gives NaN there.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isotrope.errors import UserError

Method = Literal["zca", "pca"]


def inverse_sqrt(covariance: Tensor, method: Method = "zca") -> Tensor:
    """Whitening matrices W with Wᵀ Σ W = I: (…, C, C) -> (…, C, C).

    A direction without variance (its eigenvalue below rounding) gets no output and no gradient: W
    is zero there, as the centred features are.

    Args:
        covariance: Σ = U Λ Uᵀ, symmetric.
        method: ``zca`` is U Λ^-1/2 Uᵀ, ``pca`` is U Λ^-1/2, its columns by rising eigenvalue, the
            largest entry of each positive.

    Raises:
        UserError: Σ is not finite.
    """
    try:
        matrices: Tensor = _InverseSqrt.apply(covariance, method)  # type: ignore[no-untyped-call]
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        remedy = "lower train.learning_rate, or set train.precision = fp32"
        problem = "the embeddings to whiten are not finite"
        raise UserError(problem, remedy, code="not-finite") from error
    return matrices


class _InverseSqrt(torch.autograd.Function):
    """The derivative of a function of a symmetric matrix.

    By Daleckii and Krein: Bhatia, Matrix Analysis, V.3.
    """

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, method: Method) -> Tensor:
        values, vectors = eigen(covariance)  # (..., C) rising, (..., C, C)

        # Directions without variance get no output.
        largest_value = values[..., -1:]
        smallest = _rounding(values) * largest_value
        has_variance = values > smallest.clamp(min=0)
        root = torch.where(has_variance, values, 1).sqrt()
        inverse = torch.where(has_variance, 1 / root, 0)

        if method == "pca":
            vectors = _with_signs(vectors)
        ctx.method = method
        ctx.save_for_backward(values, vectors, root, inverse)

        scaled = vectors * inverse[..., None, :]
        if method == "pca":
            return scaled
        return scaled @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, vectors, root, inverse = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            # The gradient in the basis of the eigenvectors, (..., C, C).
            inner = vectors.mT @ grads[0]
            if ctx.method == "zca":
                inner = inner @ vectors
                inner = inner * _zca_quotient(root, inverse)
            else:
                turn = _pca_turn(values, inverse)
                stretch = torch.diag_embed(inverse**3) / 2
                inner = inner * (turn - stretch)

            symmetric = inner + inner.mT
            return vectors @ symmetric @ vectors.mT / 2, None


def _with_signs(vectors: Tensor) -> Tensor:
    """Eigenvectors (…, C, C), which have no sign of their own, with a positive largest entry."""
    largest = vectors.abs().argmax(-2, keepdim=True)
    signs = vectors.gather(-2, largest).sign()
    return vectors * signs


def _zca_quotient(root: Tensor, inverse: Tensor) -> Tensor:
    """(λi^-1/2 - λj^-1/2) / (λi - λj): λ^1/2 and λ^-1/2 (…, C) -> (…, C, C).

    It is written so that λi = λj is no special case.
    """
    sums = root[..., :, None] + root[..., None, :]
    products = -inverse[..., :, None] * inverse[..., None, :]
    return products / sums


def _pca_turn(values: Tensor, inverse: Tensor) -> Tensor:
    """λj^-1/2 / (λj - λi), how eigenvectors turn: λ and λ^-1/2 (…, C) -> (…, C, C).

    Where the two are equal, eigenvectors have no derivative, and get none.
    """
    gap = values[..., None, :] - values[..., :, None]
    largest_value = values[..., -1:, None]
    differs = gap.abs() > _rounding(values) * largest_value
    safe_gap = torch.where(differs, gap, 1)
    quotient = torch.where(differs, 1 / safe_gap, 0)
    return quotient * inverse[..., None, :]


def _rounding(values: Tensor) -> float:
    """The share of the largest of C eigenvalues that may be rounding."""
    channels = values.shape[-1]
    return 4 * channels * torch.finfo(values.dtype).eps


def eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues (…, C), and their vectors as columns, of symmetric matrices (…, C, C).

    One or two channels, which is WhitenedCSE's own size of a group, need one rotation, in float64.
    Then nothing waits for the device. ``eigh`` would wait for a GPU, to ask whether all converged.

    Raises:
        torch.linalg.LinAlgError: a matrix is not finite.
    """
    channels = matrices.shape[-1]
    is_on_cpu = matrices.device.type == "cpu"
    if channels > 2:
        return torch.linalg.eigh(matrices)  # type: ignore[no-any-return]
    if is_on_cpu and not matrices.isfinite().all():
        raise torch.linalg.LinAlgError("a matrix is not finite")  # type: ignore[attr-defined]
    if channels == 1:
        return matrices[..., 0], torch.ones_like(matrices)

    has_float64 = matrices.device.type != "mps"  # Apple's GPUs do not
    precise = matrices.double() if has_float64 else matrices
    values, vectors = _rotate(precise)
    return values.to(matrices), vectors.to(matrices)


def _rotate(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """`eigen` of matrices (…, 2, 2), by one rotation."""
    first = matrices[..., 0, 0]
    second = matrices[..., 1, 1]
    between = matrices[..., 0, 1]

    # If the first variance is the larger one, turn by a right angle more. Done exactly, a channel
    # without variance does not mix with the other.
    swap = second < first
    opposite = 2 * torch.where(swap, -between, between)
    adjacent = (second - first).abs()
    angle = torch.atan2(opposite, adjacent) / 2
    cos = torch.where(swap, -angle.sin(), angle.cos())
    sin = torch.where(swap, angle.cos(), angle.sin())

    # The eigenvalues uᵀ Σ u, of u = (cos, -sin) and of u = (sin, cos).
    low_first = cos * first - sin * between
    low_second = cos * between - sin * second
    low = cos * low_first - sin * low_second
    high_first = sin * first + cos * between
    high_second = sin * between + cos * second
    high = sin * high_first + cos * high_second

    values = torch.stack([low, high], dim=-1)
    first_row = torch.stack([cos, sin], dim=-1)
    second_row = torch.stack([-sin, cos], dim=-1)
    return values, torch.stack([first_row, second_row], dim=-2)
