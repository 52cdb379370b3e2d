"""Contrastive Tension against loops, and its own mathematics."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw
from isotrope.terms.ct import ct
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(1, 3), (5, 4), (7, 2)])
def test_equals_the_loops(shape: tuple[int, int], dtype: torch.dtype, tolerance: float) -> None:
    a, b = draw(*shape, dtype=dtype), draw(*shape, seed=1, dtype=dtype)
    assert ct(a, b).item() == pytest.approx(oracle.ct(a, b), rel=tolerance)


def test_gradient() -> None:
    a, b = draw(4, 3).requires_grad_(), draw(4, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(ct, (a, b))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(0, 10_000))
def test_encoders_and_orders_do_not_matter(count: int, seed: int) -> None:
    a, b = draw(count, 5, seed=seed), draw(count, 5, seed=seed + 1)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert ct(b, a).item() == pytest.approx(ct(a, b).item(), rel=1e-9)
    assert ct(a[order], b[order]).item() == pytest.approx(ct(a, b).item(), rel=1e-9)


def test_orthogonal_rows_know_nothing_and_long_ones_are_sure() -> None:
    rows = torch.eye(3, dtype=torch.float64)
    assert ct(rows, rows.roll(1, dims=1) * 0).item() == pytest.approx(math.log(2))
    assert ct(30 * rows, 30 * rows).item() == pytest.approx(math.log(2) * 6 / 9, rel=1e-9), "six zeros of nine"


def test_large_products_stay_finite() -> None:
    rows = torch.full((3, 4), 1e4, requires_grad=True)
    loss = ct(rows, rows)
    loss.backward()
    assert torch.isfinite(loss)
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()
