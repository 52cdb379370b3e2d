"""Peer-positive contrast against loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope.errors import UserError
from isotrope.terms.group import Group, group_contrast
from isotrope.terms.infonce import infonce
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("views", [2, 4])
def test_equals_the_loops(views: int, dtype: torch.dtype, tolerance: float) -> None:
    stack = draw(views, 5, 4, dtype=dtype)
    assert group_contrast(stack, 0.2).item() == pytest.approx(oracle.group_contrast(stack, 0.2), rel=tolerance)


def test_gradient() -> None:
    stack = draw(3, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: group_contrast(given, 0.3), stack)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_it_is_at_least_the_share_of_one_positive(views: int, count: int, seed: int) -> None:
    """P positives that take all of the softmax have 1 / P each; their order does not matter."""
    stack = draw(views, count, 4, seed=seed)
    found = group_contrast(stack, 0.1).item()
    assert found >= math.log(views - 1) - 1e-9
    assert group_contrast(stack[[0, *range(views - 1, 0, -1)]], 0.1).item() == pytest.approx(found, rel=1e-9)


def test_views_are_named_and_the_first_two_have_infonce() -> None:
    given = scores(stack := draw(4, 5, 3))
    cosines = oracle.cosines(stack[3], stack[1])
    expected = infonce(cosines, 0.05).item() + group_contrast(stack[[3, 1, 0]], 0.05).item()
    assert Group(views=(3, 1, 0))(given).item() == pytest.approx(expected)
    with pytest.raises(UserError, match=r"terms.group.views = \[0, 4\] is not possible: the views are 0 to 3"):
        Group(views=(0, 4))(given)
