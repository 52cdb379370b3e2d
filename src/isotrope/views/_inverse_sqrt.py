"""Σ^-1/2 with a backward that is finite at equal eigenvalues.

Autograd through ``torch.linalg.eigh`` gives NaN there.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isotrope.errors import UserError

Method = Literal["zca", "pca"]


def inverse_sqrt(
    covariance: Tensor,  # Σ = U Λ Uᵀ (…, C, C), symmetric
    method: Method = "zca",
) -> Tensor:
    """Whitening matrices W with Wᵀ Σ W = I -> (…, C, C).

    A direction without variance (its eigenvalue below rounding) gets no output and no gradient: W
    is zero there, as the centred features are.

    Args:
        covariance: of the features to whiten.
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
        values, vectors = eigen(covariance)  # λ (…, C) rising, U (…, C, C)
        if method == "pca":
            vectors = _with_signs(vectors)

        # Directions without variance get no output.
        largest_value = values[..., -1:]
        smallest = _rounding(values) * largest_value
        has_variance = values > smallest.clamp(min=0)
        safe_values = torch.where(has_variance, values, 1)
        root = safe_values.sqrt()  # λ^1/2
        inverse = torch.where(has_variance, 1 / root, 0)  # λ^-1/2

        ctx.method = method
        ctx.save_for_backward(values, vectors, root, inverse)

        scaled = vectors * inverse.unsqueeze(-2)  # U Λ^-1/2
        if method == "pca":
            return scaled
        return scaled @ vectors.mT  # U Λ^-1/2 Uᵀ

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, vectors, root, inverse = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            # The gradient in the basis of the eigenvectors, (…, C, C).
            inner = vectors.mT @ grads[0]
            if ctx.method == "zca":
                inner = inner @ vectors
                inner = inner * _zca_quotient(root, inverse)
            else:
                turn = _pca_turn(values, inverse)
                stretch = torch.diag_embed(inverse**3)
                inner = inner * (turn - stretch / 2)

            symmetric = inner + inner.mT
            gradient = vectors @ symmetric @ vectors.mT
            return gradient / 2, None


def _with_signs(vectors: Tensor) -> Tensor:
    """Eigenvectors (…, C, C), which have no sign of their own, with a positive largest entry."""
    largest = vectors.abs().argmax(-2, keepdim=True)
    largest_entries = vectors.gather(-2, largest)
    return vectors * largest_entries.sign()


def _zca_quotient(
    root: Tensor,  # λ^1/2 (…, C)
    inverse: Tensor,  # λ^-1/2 (…, C)
) -> Tensor:
    """(λi^-1/2 - λj^-1/2) / (λi - λj) -> (…, C, C).

    It is written so that λi = λj is no special case.
    """
    inverse_i = inverse.unsqueeze(-1)
    inverse_j = inverse.unsqueeze(-2)
    root_i = root.unsqueeze(-1)
    root_j = root.unsqueeze(-2)
    product = -inverse_i * inverse_j
    return product / (root_i + root_j)


def _pca_turn(
    values: Tensor,  # λ (…, C), rising
    inverse: Tensor,  # λ^-1/2 (…, C)
) -> Tensor:
    """λj^-1/2 / (λj - λi), how eigenvectors turn -> (…, C, C).

    Where the two are equal, eigenvectors have no derivative, and get none.
    """
    value_i = values.unsqueeze(-1)
    value_j = values.unsqueeze(-2)
    gap = value_j - value_i

    largest_value = value_i[..., -1:, :]
    smallest_gap = _rounding(values) * largest_value
    differs = gap.abs() > smallest_gap
    safe_gap = torch.where(differs, gap, 1)
    quotient = torch.where(differs, 1 / safe_gap, 0)
    return quotient * inverse.unsqueeze(-2)


def _rounding(values: Tensor) -> float:
    """The share of the largest of C eigenvalues that may be rounding."""
    channels = values.shape[-1]
    epsilon = torch.finfo(values.dtype).eps
    return 4 * channels * epsilon


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
    variances = matrices.diagonal(dim1=-2, dim2=-1)
    first, second = variances.unbind(-1)
    between = matrices[..., 0, 1]

    # If the first variance is the larger one, turn by a right angle more. Done exactly, a channel
    # without variance does not mix with the other.
    swap = second < first
    half_opposite = torch.where(swap, -between, between)
    adjacent = (second - first).abs()
    angle = torch.atan2(2 * half_opposite, adjacent) / 2
    angle_cos = angle.cos()
    angle_sin = angle.sin()
    cos = torch.where(swap, -angle_sin, angle_cos)
    sin = torch.where(swap, angle_cos, angle_sin)

    def variance(x: Tensor, y: Tensor) -> Tensor:
        """uᵀ Σ u, of u = (x, y)."""
        image_x = x * first + y * between
        image_y = x * between + y * second
        return x * image_x + y * image_y

    low = variance(cos, -sin)
    high = variance(sin, cos)
    values = torch.stack([low, high], dim=-1)

    low_vector = torch.stack([cos, -sin], dim=-1)
    high_vector = torch.stack([sin, cos], dim=-1)
    vectors = torch.stack([low_vector, high_vector], dim=-1)  # as columns
    return values, vectors
