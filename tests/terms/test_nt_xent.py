"""NT-Xent against loops, and its own mathematics."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw
from isotrope.terms.infonce import infonce
from isotrope.terms.nt_xent import nt_xent
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 3), (5, 4), (7, 2)])
def test_equals_the_loops(shape: tuple[int, int], dtype: torch.dtype, tolerance: float) -> None:
    a, b = draw(*shape, dtype=dtype), draw(*shape, seed=1, dtype=dtype)
    assert nt_xent(a, b, 0.3).item() == pytest.approx(oracle.nt_xent(a, b, 0.3), rel=tolerance)


def test_gradient() -> None:
    a, b = draw(4, 3).requires_grad_(), draw(4, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: nt_xent(x, y, 0.3), (a, b))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.floats(0.01, 100), st.integers(0, 10_000))
def test_views_orders_and_lengths_do_not_matter(count: int, scale: float, seed: int) -> None:
    a, b = draw(count, 5, seed=seed), draw(count, 5, seed=seed + 1)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    expected = nt_xent(a, b, 0.1).item()
    assert nt_xent(b, a, 0.1).item() == pytest.approx(expected, rel=1e-9)
    assert nt_xent(scale * a[order], b[order], 0.1).item() == pytest.approx(expected, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10_000))
def test_it_is_more_than_infonce_in_both_directions(count: int, seed: int) -> None:
    """Its anchors have N - 1 candidates more, those of their own view."""
    a, b = draw(count, 5, seed=seed), draw(count, 5, seed=seed + 1)
    cosines = torch.nn.functional.normalize(a, dim=-1) @ torch.nn.functional.normalize(b, dim=-1).T
    assert nt_xent(a, b, 0.1) > (infonce(cosines, 0.1) + infonce(cosines.T, 0.1)) / 2


def test_equal_rows_cannot_be_told_apart() -> None:
    ones = torch.ones(4, 3, dtype=torch.float64)
    assert nt_xent(ones, ones, 0.01).item() == pytest.approx(torch.tensor(7.0, dtype=torch.float64).log().item())
