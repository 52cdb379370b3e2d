"""Distillation of in-batch similarities: against loops, and at the teacher."""

from __future__ import annotations

import pytest
import torch

from drawn import draw, scores
from isotrope import component
from isotrope.scores.instance_weight import InstanceWeight
from isotrope.scores.noise import Noise
from isotrope.terms.distillation import Distillation, distillation
from oracle import debiased as oracle


def test_distillation_equals_the_loops() -> None:
    cosines, teacher = torch.tanh(draw(5, 5)), torch.tanh(draw(5, 5, seed=1))
    expected = oracle.distillation(cosines, teacher, 0.3)
    assert distillation(cosines, teacher, 0.3).item() == pytest.approx(expected, rel=1e-10)
    both = torch.stack([cosines, teacher])
    assert distillation(both, teacher, 0.3).item() == pytest.approx(expected / 2, rel=1e-10)


def test_distillation_rests_at_the_teacher() -> None:
    teacher = torch.tanh(draw(5, 5))
    cosines = teacher.clone().requires_grad_()
    value = distillation(cosines, teacher, 0.05)
    value.backward()
    assert value.item() == pytest.approx(0.0, abs=1e-12)
    assert cosines.grad is not None
    assert cosines.grad.abs().max() < 1e-12
    other = torch.tanh(draw(2, 4, 4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: distillation(c, teacher[:4, :4], 0.3), other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distillation_through_its_class(dtype: torch.dtype) -> None:
    """Noise columns and weights are not its matter; at saturation it stays finite."""
    stack = torch.cat([torch.ones(2, 3, 8), -torch.ones(2, 1, 8)], dim=1).to(dtype).requires_grad_()
    term = component("terms", "distillation", teacher="guide", temperature=0.01, weight=0.5)
    plain = scores(stack, draw(4, 8, dtype=torch.float32))
    loss = term(InstanceWeight("guide", 0.5)(Noise()(plain)))
    assert loss.item() == term(plain).item()
    assert loss.item() == pytest.approx(0.5 * distillation(plain.cosines, plain.teacher("guide"), 0.01).item())
    loss.backward()
    assert stack.grad is not None
    assert torch.isfinite(stack.grad).all()
    assert Distillation("guide", weight=0.0)(plain).item() == 0.0
