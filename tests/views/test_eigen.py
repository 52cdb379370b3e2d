"""Eigenvectors of small matrices by rotations, and Σ^-1/2: against eigh, and their gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drawn import draw
from isotrope.views._inverse_sqrt import Method, inverse_sqrt, rotations
from isotrope.views.sgw import group_whiten


@contextmanager
def rotating() -> Iterator[None]:
    """What a GPU would run, on the CPU: rotations also for 3 and 4 channels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isotrope.views._inverse_sqrt.eigen", rotations)
        yield


def symmetric(values: Tensor, seed: int, dtype: torch.dtype) -> Tensor:
    """Matrices (B, C, C) with the eigenvalues (B, C), in random directions."""
    turn = torch.linalg.qr(draw(*values.shape, values.shape[-1], seed=seed))[0]
    matrix = ((turn * values[:, None]) @ turn.mT).to(dtype)
    return (matrix + matrix.mT) / 2


SPECTRA: dict[str, Callable[[Tensor, float], Tensor]] = {  # from uniform numbers (B, C) and the condition number
    "wide": lambda u, condition: condition**-u,
    "ends": lambda u, condition: condition ** -u.round(),
    "equal": lambda u, _: torch.ones_like(u),
    "pairs": lambda u, _: 1 + u.round(),
    "nearly equal": lambda u, _: 1 + 1e-9 * u,
    "rank one": lambda u, _: torch.eye(u.shape[1], dtype=u.dtype)[0].expand_as(u),
    "some are zero": lambda u, _: u.round(),
    "zero": lambda u, _: torch.zeros_like(u),
}


PRECISIONS = [(torch.float32, 1e-5, 1e5), (torch.float64, 1e-10, 1e10)]  # type, tolerance, condition number


def root_by_eigh(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """The oracle: in float64, without the directions whose eigenvalue may be rounding of ``dtype``."""
    values, vectors = torch.linalg.eigh(matrices.double())
    live = values > 4 * values.shape[-1] * torch.finfo(dtype).eps * values[:, -1:].clamp(min=0)
    return (vectors * torch.where(live, values, torch.inf).rsqrt()[:, None]) @ vectors.mT


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from(list(SPECTRA)),
    st.sampled_from(PRECISIONS),
    st.integers(-8, 8),
    st.integers(0, 9999),
)
def test_rotations_equal_eigh(size: int, spectrum: str, precision: Any, power: int, seed: int) -> None:
    """Values, vectors and Σ^-1/2: from equal eigenvalues to rank 1, for tiny and huge features."""
    dtype, tolerance, condition = precision
    uniform = torch.rand(50, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrices = symmetric(10.0**power * SPECTRA[spectrum](uniform, condition), seed, dtype)
    values, vectors = rotations(matrices)
    rounding = 16 * torch.finfo(dtype).eps
    largest = matrices.abs().amax((1, 2)).double().clamp(min=1e-30)[:, None]
    assert ((values.double() - torch.linalg.eigvalsh(matrices.double())).abs() <= rounding * largest).all()
    assert (values.diff(dim=-1) >= -rounding * largest).all()
    assert torch.allclose(vectors.mT @ vectors, torch.eye(size, dtype=dtype), atol=rounding)
    again = (vectors * values[:, None]) @ vectors.mT
    assert ((again - matrices).abs() <= rounding * largest[..., None]).all()
    expected = root_by_eigh(matrices, dtype)
    with rotating():
        found = inverse_sqrt(matrices).double()
    # a matrix's own last digit moves its smallest eigenvalue by eps · condition: no method in float64 comes closer
    allowed = tolerance + (10 * torch.finfo(torch.float64).eps * condition if spectrum in ("wide", "ends") else 0)
    assert ((found - expected).abs().amax((1, 2)) <= allowed * expected.abs().amax((1, 2))).all()


def test_rotations_of_small_integers() -> None:
    """Interleaved double eigenvalues: without sorting, some of these are far from diagonal after six sweeps."""
    for size in (2, 3, 4):
        factor = torch.randint(-1, 2, (5000, size, size), generator=torch.Generator().manual_seed(0)).double()
        matrices = factor @ factor.mT
        values, vectors = rotations(matrices)
        assert ((vectors * values[:, None]) @ vectors.mT - matrices).abs().max() < 1e-13
    stubborn = torch.tensor([[2, 1, 1, -1], [1, 2, 1, 1], [1, 1, 1, 0], [-1, 1, 0, 3]], dtype=torch.float64)
    values, vectors = rotations(stubborn)
    assert torch.allclose(values, 2 + torch.tensor([-1.0, -1, 1, 1], dtype=values.dtype) * 3**0.5, atol=1e-14)
    assert torch.allclose((vectors * values) @ vectors.mT, stubborn, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gradient_through_rotations(size: int) -> None:
    def root(matrices: Tensor, method: Method = "zca") -> Tensor:
        with rotating():
            return inverse_sqrt((matrices + matrices.mT) / 2, method)

    apart = torch.arange(1, 1 + size, dtype=torch.float64)
    pairs = 1 + torch.arange(size, dtype=torch.float64) // 2
    matrices = torch.cat([symmetric(values[None], 0, torch.float64) for values in (apart, pairs, torch.ones(size))])
    assert torch.autograd.gradcheck(root, matrices.requires_grad_())
    distinct = matrices.detach()[:1].requires_grad_()
    assert torch.autograd.gradcheck(lambda one: root(one, "pca"), distinct)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rotations_leave_dead_directions_alone(size: int, dtype: torch.dtype) -> None:
    """A constant channel: exactly no output, whichever it is; two equal channels: as by eigh, values and gradient."""
    z = draw(3, 20, 4 * size, dtype=dtype)
    for channel in range(size):
        dead, twin = z.clone(), z.clone()
        dead[..., channel] = 1234.5
        twin[..., channel] = twin[..., channel - 1]
        weight = draw(3, 20, 4 * size, seed=1, dtype=dtype)
        for features in (dead, twin):
            x = features.requires_grad_()
            expected = group_whiten(x, 4)
            (slope,) = torch.autograd.grad((expected * weight).sum(), x)
            with rotating():
                found = group_whiten(x, 4)
            assert torch.allclose(found, expected, atol=1e-4)
            assert torch.allclose(torch.autograd.grad((found * weight).sum(), x)[0], slope, atol=1e-3)
            if features is dead:
                assert found[..., channel].abs().max() == 0


def test_gradient_at_equal_eigenvalues() -> None:
    white = group_whiten(draw(8, 4), 1)  # all four eigenvalues are 1
    pair = white * torch.tensor([1.0, 1.0, 2.0, 2.0])
    for z in (white, pair, white @ torch.linalg.qr(draw(4, 4, seed=1))[0]):
        assert torch.autograd.gradcheck(lambda x: group_whiten(x, 1), z.detach().requires_grad_())


def test_autograd_through_eigh_would_not_do() -> None:
    """The reason for the analytic backward; and where eigenvectors have no derivative (pca), it is at least finite."""
    covariance = torch.eye(3, dtype=torch.float64, requires_grad=True)
    values, vectors = torch.linalg.eigh(covariance)
    matrix = vectors @ torch.diag(values**-0.5) @ vectors.T
    (naive,) = torch.autograd.grad((matrix * draw(3, 3)).sum(), covariance)
    assert not torch.isfinite(naive).all()
    for method in ("zca", "pca"):
        (ours,) = torch.autograd.grad((inverse_sqrt(covariance, method) * draw(3, 3)).sum(), covariance)
        assert torch.isfinite(ours).all()
