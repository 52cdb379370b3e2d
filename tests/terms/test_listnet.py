"""ListNet: against loops, the golden numbers, and at the teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import cosines_of, draw, scores
from isotrope.terms.listnet import listnet
from oracle import ranking as oracle


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
def test_equals_the_loops(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, drop: bool) -> None:
    cosines, teacher = cosines_of(*shape).to(dtype), cosines_of(*shape[-2:], seed=1).to(dtype)
    expected = oracle.listnet(cosines, teacher, 0.3, 0.2, drop)
    assert listnet(cosines, teacher, 0.3, 0.2, drop).item() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    value = {name: torch.from_numpy(array) for name, array in np.load(golden / "equations.npz").items()}
    h, positive, teacher = (value[name].to(dtype) for name in ("h", "h_pos", "teacher"))
    cosines, (student, target) = scores(torch.stack([h, positive])).pairs, value["tau_listnet"].tolist()
    found = {
        "listnet": listnet(cosines, teacher, student, target),
        "listnet_with_positive": listnet(cosines, teacher, student, target, drop_positive=False),
    }
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...], drop: bool) -> None:
    teacher = cosines_of(4, 4, seed=1)
    cosines = cosines_of(*shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: listnet(c, teacher, 0.3, 0.2, drop), cosines)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.floats(0.02, 1), st.booleans(), st.integers(0, 10_000))
def test_listnet_is_stationary_at_the_teacher(count: int, temperature: float, drop: bool, seed: int) -> None:
    teacher = cosines_of(count, count, seed=seed)
    student = teacher.clone().requires_grad_()
    loss = listnet(student, teacher, temperature, temperature, drop)
    loss.backward()
    assert student.grad is not None
    assert student.grad.abs().max().item() < 1e-12 / temperature
    elsewhere = teacher + 0.1 * draw(count, count, seed=seed + 1)
    assert listnet(elsewhere, teacher, temperature, temperature, drop) >= loss - 1e-12


@pytest.mark.parametrize("drop", [True, False])
def test_the_positive_has_a_gradient_only_where_it_stays(drop: bool) -> None:
    student = cosines_of(4, 4).requires_grad_()
    listnet(student, cosines_of(4, 4, seed=1), 0.3, 0.2, drop).backward()
    assert student.grad is not None
    assert bool((student.grad.diagonal() == 0).all()) is drop


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_small_temperature_in_float32(seed: int) -> None:
    """Logits up to ±100: the value and the gradient stay those of float64."""
    exact, teacher = cosines_of(24, 24, seed=seed) * 0.999, cosines_of(24, 24, seed=seed + 1)
    single, double = exact.float().requires_grad_(), exact.float().double().requires_grad_()
    found, expected = (listnet(single, teacher.to(single), 0.01, 0.01), listnet(double, teacher.to(double), 0.01, 0.01))
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    (gradient,), (reference,) = torch.autograd.grad(found, single), torch.autograd.grad(expected, double)
    assert torch.allclose(gradient.double(), reference, atol=1e-3 * reference.abs().max().item())
