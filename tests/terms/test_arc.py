"""The angular margin against loops, and where angles have no slope."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import cosines_of, draw
from isotrope.terms.arc import arc, with_margin
from isotrope.terms.infonce import infonce
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("margin", [0.0, 0.1745, 1.0])
@pytest.mark.parametrize("count", [2, 6])
def test_equals_the_loops(count: int, margin: float, dtype: torch.dtype, tolerance: float) -> None:
    cosines = torch.tanh(draw(count, count)).to(dtype)
    assert arc(cosines, 0.3, margin).item() == pytest.approx(oracle.arc(cosines, 0.3, margin), rel=tolerance)


@pytest.mark.parametrize("shape", [(4, 4), (4, 6), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...]) -> None:
    cosines = torch.tanh(draw(*shape)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: arc(c, 0.2, 0.3), cosines)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("edge", [1.0, -1.0, 1.0000001, -1.0000001, 0.99999994])
def test_the_edges_are_exact_and_have_finite_gradients(edge: float, dtype: torch.dtype) -> None:
    cosine = torch.full((3, 3), edge, dtype=dtype).requires_grad_()
    found = with_margin(cosine, 0.1745)
    angle = math.acos(max(-1.0, min(1.0, float(cosine[0, 0].detach()))))
    assert found[0, 0].item() == pytest.approx(math.cos(angle + 0.1745), abs=1e-6)
    arc(cosine, 0.05, 0.1745).backward()
    assert cosine.grad is not None
    assert torch.isfinite(cosine.grad).all()


def test_equal_views_leave_no_nan_in_the_embeddings() -> None:
    rows = draw(4, 6).float().requires_grad_()
    unit = torch.nn.functional.normalize(rows, dim=-1)
    arc(unit @ unit.T, 0.05, 0.1745).backward()
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.floats(0, 1.5), st.integers(0, 10_000))
def test_without_a_margin_it_is_infonce_and_a_margin_costs(count: int, margin: float, seed: int) -> None:
    cosines = cosines_of(count, count, seed=seed).abs()  # angles up to 90 degrees: no sum goes past 180
    assert arc(cosines, 0.1, 0.0).item() == pytest.approx(infonce(cosines, 0.1).item(), rel=1e-9, abs=1e-12)
    assert arc(cosines, 0.1, margin) >= arc(cosines, 0.1, 0.0) - 1e-12


def test_removed_candidates_leave_the_denominator() -> None:
    cosines, keep = torch.tanh(draw(3, 5)), torch.ones(3, 5)
    keep[:, 3:] = 0
    assert arc(cosines, 0.1, 0.2, keep).item() == pytest.approx(arc(cosines[:, :3], 0.1, 0.2).item(), rel=1e-12)
