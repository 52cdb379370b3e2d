"""Triplets against loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope.errors import UserError
from isotrope.terms.triplet import Triplet, triplet
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_equals_the_loops(margin: float, dtype: torch.dtype, tolerance: float) -> None:
    parts = [draw(6, 4, seed=seed, dtype=dtype) for seed in range(3)]
    expected = oracle.triplet(*parts, margin)
    assert expected > 0
    assert triplet(*parts, margin).item() == pytest.approx(expected, rel=tolerance)


def test_gradient() -> None:
    parts = [draw(4, 3, seed=seed).requires_grad_() for seed in range(3)]
    assert torch.autograd.gradcheck(lambda *given: triplet(*given, 0.5), parts)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.floats(0.01, 100), st.integers(0, 10_000))
def test_it_is_zero_in_the_right_order_and_lengths_do_not_matter(count: int, scale: float, seed: int) -> None:
    anchor, near, far = (draw(count, 4, seed=seed + number) for number in range(3))
    assert triplet(anchor, near, far).item() == pytest.approx(
        triplet(scale * anchor, near, scale * far).item(), abs=1e-9
    )
    assert triplet(anchor, anchor, far).item() == pytest.approx(0, abs=1e-12), "nothing is nearer than itself"


def test_the_views_are_named() -> None:
    stack = draw(4, 5, 3)
    found = Triplet(near=3, far=2, weight=0.5)(scores(stack))
    assert found.item() == pytest.approx(0.5 * triplet(stack[0], stack[3], stack[2]).item())
    with pytest.raises(UserError, match=r"terms\.triplet = \[0, 1, 2\] is not possible: the views are 0 to 1"):
        Triplet()(scores(draw(2, 5, 3)))
