"""The community's ListMLE, against loops; it does not see the order of the far end of a list."""

from __future__ import annotations

import pytest
import torch

from drawn import draw, scores
from isotrope.released.floored import Floored, floored_listmle
from isotrope.terms.listmle import listmle
from oracle import released as oracle


@pytest.mark.parametrize("temperature", [0.05, 0.3])
def test_the_sum_has_a_floor(temperature: float) -> None:
    cosines, teacher = torch.tanh(draw(6, 6)), torch.tanh(draw(6, 6, seed=1))
    found = floored_listmle(cosines, teacher, temperature).item()
    assert found == pytest.approx(oracle.listmle(cosines, teacher, temperature), rel=1e-9)
    difference = found - listmle(cosines, teacher, temperature).item()
    assert difference > 0.1 if temperature == 0.05 else 0 < difference < 0.01
    assert torch.autograd.gradcheck(lambda c: floored_listmle(c, teacher, 0.3), cosines.clone().requires_grad_())


def test_the_order_of_the_far_end_hardly_counts() -> None:
    teacher = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    right, wrong = torch.tensor([[[0.95, 0.9, 0.01, 0.0]], [[0.95, 0.9, 0.0, 0.01]]], dtype=torch.float64)
    costs = [each(wrong, teacher, 0.05) - each(right, teacher, 0.05) for each in (listmle, floored_listmle)]
    assert costs[0] > 0.19
    assert 0 < costs[1] < 0.05


def test_options_are_those_of_listmle() -> None:
    plain = scores(draw(2, 5, 6), draw(5, 6, seed=3))
    whole = floored_listmle(plain.pairs, plain.teacher("guide"), 0.1, drop_positive=True)
    assert Floored("guide", 0.1, 0.5, drop_positive=True)(plain).item() == pytest.approx(whole.item() / 2)
