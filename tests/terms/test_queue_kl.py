"""KL to a queue: against loops, at the teacher, and at small temperatures."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import cosines_of
from isotrope.terms.listnet import listnet
from isotrope.terms.queue_kl import queue_kl
from oracle import distillation as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(1, 1), (4, 9), (9, 4)])
def test_equals_the_loops(shape: tuple[int, int], dtype: torch.dtype, tolerance: float) -> None:
    student, teacher = cosines_of(*shape).to(dtype), cosines_of(*shape, seed=1).to(dtype)
    expected = oracle.queue_kl(student, teacher, 0.3, 0.2)
    assert queue_kl(student, teacher, 0.3, 0.2).item() == pytest.approx(expected, rel=tolerance, abs=1e-12)


def test_gradient() -> None:
    """It is that of ListNet over the queue: the two differ by the teacher's entropy."""
    student, teacher = cosines_of(4, 9).requires_grad_(), cosines_of(4, 9, seed=1)
    assert torch.autograd.gradcheck(lambda c: queue_kl(c, teacher, 0.3, 0.2), student)
    (of_kl,) = torch.autograd.grad(queue_kl(student, teacher, 0.3, 0.2), student)
    (of_listnet,) = torch.autograd.grad(listnet(student, teacher, 0.3, 0.2, drop_positive=False), student)
    assert torch.allclose(of_kl, of_listnet, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(2, 9), st.floats(0.02, 1), st.integers(0, 10_000))
def test_rests_where_the_student_agrees(count: int, queue: int, temperature: float, seed: int) -> None:
    """Twice the temperature for lists twice as wide: the same distributions, so no loss; elsewhere it is above 0."""
    teacher = cosines_of(count, queue, seed=seed)
    student = (teacher / 2).requires_grad_()
    loss = queue_kl(student, teacher, temperature, 2 * temperature)
    (gradient,) = torch.autograd.grad(loss, student)
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12 / temperature
    assert queue_kl(cosines_of(count, queue, seed=seed + 1), teacher, temperature, temperature) >= 0


def test_small_temperature_in_float32() -> None:
    student, teacher = 0.999 * cosines_of(8, 64), cosines_of(8, 64, seed=1)
    single, double = student.float().requires_grad_(), student.float().double().requires_grad_()
    found, expected = (queue_kl(each, teacher.float().to(each), 0.01, 0.01) for each in (single, double))
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    (gradient,), (reference,) = torch.autograd.grad(found, single), torch.autograd.grad(expected, double)
    assert torch.allclose(gradient.double(), reference, atol=1e-3 * reference.abs().max().item())
