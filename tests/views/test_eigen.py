"""Eigenvectors of small matrices by one rotation, and Σ^-1/2: against eigh, and their gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drawn import draw
from isotrope.views._inverse_sqrt import Method, eigen, inverse_sqrt


def symmetric(values: Tensor, seed: int, dtype: torch.dtype) -> Tensor:
    """Matrices (B, C, C) with the eigenvalues (B, C), in random directions."""
    turn = torch.linalg.qr(draw(*values.shape, values.shape[-1], seed=seed))[0]
    matrix = ((turn * values[:, None]) @ turn.mT).to(dtype)
    return (matrix + matrix.mT) / 2


SPECTRA: dict[str, Callable[[Tensor, float], Tensor]] = {  # from uniform numbers (B, C) and the condition number
    "wide": lambda u, condition: condition**-u,
    "equal": lambda u, _: torch.ones_like(u),
    "nearly equal": lambda u, _: 1 + 1e-9 * u,
    "rank one": lambda u, _: torch.eye(u.shape[1], dtype=u.dtype)[0].expand_as(u),
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
    st.integers(1, 4), st.sampled_from(list(SPECTRA)), st.sampled_from(PRECISIONS), st.integers(-8, 8),
    st.integers(0, 9999),
)  # fmt: skip
def test_equals_eigh(size: int, spectrum: str, precision: Any, power: int, seed: int) -> None:
    """Values, vectors and Σ^-1/2: from equal eigenvalues to rank 1, for tiny and huge features."""
    dtype, tolerance, condition = precision
    uniform = torch.rand(50, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrices = symmetric(10.0**power * SPECTRA[spectrum](uniform, condition), seed, dtype)
    values, vectors = eigen(matrices)
    rounding = 16 * torch.finfo(dtype).eps
    largest = matrices.abs().amax((1, 2)).double().clamp(min=1e-30)[:, None]
    assert ((values.double() - torch.linalg.eigvalsh(matrices.double())).abs() <= rounding * largest).all()
    assert (values.diff(dim=-1) >= -rounding * largest).all()
    assert torch.allclose(vectors.mT @ vectors, torch.eye(size, dtype=dtype), atol=rounding)
    again = (vectors * values[:, None]) @ vectors.mT
    assert ((again - matrices).abs() <= rounding * largest[..., None]).all()
    expected = root_by_eigh(matrices, dtype)
    # a matrix's own last digit moves its smallest eigenvalue by eps · condition: no method in float64 comes closer
    allowed = tolerance + (10 * torch.finfo(dtype).eps * condition if spectrum == "wide" else 0)
    difference = (inverse_sqrt(matrices).double() - expected).abs().amax((1, 2))
    assert (difference <= allowed * expected.abs().amax((1, 2))).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gradient(size: int) -> None:
    def root(matrices: Tensor, method: Method = "zca") -> Tensor:
        return inverse_sqrt((matrices + matrices.mT) / 2, method)

    apart = torch.arange(1, 1 + size, dtype=torch.float64)
    pairs = 1 + torch.arange(size, dtype=torch.float64) // 2
    matrices = torch.cat([symmetric(values[None], 0, torch.float64) for values in (apart, pairs, torch.ones(size))])
    assert torch.autograd.gradcheck(root, matrices.requires_grad_())
    distinct = matrices.detach()[:1].requires_grad_()
    assert torch.autograd.gradcheck(lambda one: root(one, "pca"), distinct)
