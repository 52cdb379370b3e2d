"""The band of margins against loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope.errors import UserError
from isotrope.terms.margin_band import MarginBand, margin_band
from oracle import losses as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("ends", [(0.1, 0.3), (0.0, 0.0), (0.5, 1.5)])
def test_equals_the_loops(ends: tuple[float, float], dtype: torch.dtype, tolerance: float) -> None:
    parts = [draw(6, 4, seed=seed, dtype=dtype) for seed in range(3)]
    expected = oracle.margin_band(*parts, *ends)
    assert expected > 0
    assert margin_band(*parts, *ends).item() == pytest.approx(expected, rel=tolerance)


def test_gradient() -> None:
    parts = [draw(4, 3, seed=seed).requires_grad_() for seed in range(3)]
    assert torch.autograd.gradcheck(lambda *given: margin_band(*given, 0.1, 0.3), parts)


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(-2, 0))
def test_it_is_zero_within_the_band_alone(least: float, wide: float, difference: float) -> None:
    anchor = positive = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    cosine = 1 + difference
    soft = torch.tensor([[cosine, max(0.0, 1 - cosine**2) ** 0.5]], dtype=torch.float64)
    found = margin_band(anchor, positive, soft, least, least + wide).item()
    outside = max(least + difference, -difference - least - wide, 0.0)
    assert found == pytest.approx(outside, abs=1e-6)


def test_the_soft_negative_is_a_view_or_a_column() -> None:
    given = scores(stack := draw(3, 5, 4), hard=2)
    one = margin_band(*stack, 0.1, 0.3)
    assert MarginBand(weight=1.0)(given).item() == pytest.approx(one.item())
    own = margin_band(stack[0], stack[1], given.views.negatives[:, 0], 0.1, 0.3)
    assert MarginBand(view=0, weight=1.0)(given).item() == pytest.approx(own.item())
    assert MarginBand(view=0).reads_negatives
    assert not MarginBand().reads_negatives
    with pytest.raises(UserError, match="the data has no negatives: give --negative COLUMN"):
        MarginBand(view=0)(scores(draw(2, 5, 4)))
