"""ListMLE: against loops, the golden numbers, and as a likelihood of orders."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import cosines_of, scores
from isotrope.terms.listmle import ListMLE, listmle
from oracle import ranking as oracle


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
def test_equals_the_loops(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, drop: bool, ties: bool) -> None:
    cosines, teacher = cosines_of(*shape).to(dtype), cosines_of(*shape[-2:], seed=1).to(dtype)
    teacher = teacher.round() if ties else teacher  # -1, 0 and 1
    expected = oracle.listmle(cosines, teacher, 0.3, drop)
    assert listmle(cosines, teacher, 0.3, drop).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    value = {name: torch.from_numpy(array) for name, array in np.load(golden / "equations.npz").items()}
    h, positive, teacher = (value[name].to(dtype) for name in ("h", "h_pos", "teacher"))
    cosines, tau = scores(torch.stack([h, positive])).pairs, value["tau"].item()
    found = {
        "listmle": listmle(cosines, teacher, tau),
        "listmle_without_positive": listmle(cosines, teacher, tau, drop_positive=True),
    }
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...], drop: bool, ties: bool) -> None:
    teacher = cosines_of(4, 4, seed=1)
    teacher = teacher.round() if ties else teacher
    assert torch.autograd.gradcheck(lambda c: listmle(c, teacher, 0.3, drop), cosines_of(*shape).requires_grad_())


@pytest.mark.parametrize("drop", [True, False])
def test_the_positive_has_a_gradient_only_where_it_stays(drop: bool) -> None:
    student = cosines_of(4, 4).requires_grad_()
    listmle(student, cosines_of(4, 4, seed=1), 0.3, drop).backward()
    assert student.grad is not None
    assert bool((student.grad.diagonal() == 0).all()) is drop


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_teachers_order_is_the_likeliest(seed: int) -> None:
    """Among all permutations of the same scores, those in the teacher's order have the lowest loss."""
    teacher, values = cosines_of(4, 4, seed=seed), cosines_of(4, 4, seed=seed + 1).sort(descending=True).values
    places = teacher.argsort(descending=True).argsort()  # the rank of each column
    best = listmle(values.gather(1, places), teacher, 0.1).item()
    for permutation in itertools.permutations(range(4)):
        assert listmle(values.gather(1, places)[:, list(permutation)], teacher, 0.1).item() >= best - 1e-12


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100), st.floats(-5, 5), st.integers(0, 10_000))
def test_listmle_knows_only_the_teachers_order(scale: float, shift: float, seed: int) -> None:
    student, teacher = cosines_of(6, 6, seed=seed), cosines_of(6, 6, seed=seed + 1)
    loss = listmle(student, teacher, 0.05).item()
    assert listmle(student, scale * teacher + shift, 0.05).item() == loss
    assert listmle(student, (teacher / 0.3).exp(), 0.05).item() == loss


def test_ties_keep_the_order_of_the_columns() -> None:
    student = cosines_of(70, 70)  # longer than the sort's unstable small case
    falling = -torch.arange(70.0).expand(70, 70)
    assert listmle(student, torch.zeros(70, 70), 0.1) == listmle(student, falling, 0.1)


def test_all_permutations_have_probability_one() -> None:
    """ListMLE is the logarithm of a distribution over orders (RankCSE Sec. 3)."""
    row = cosines_of(4)
    total = 0.0
    for permutation in itertools.permutations(range(4)):
        teacher = torch.tensor(permutation, dtype=torch.float64).expand(4, 4)
        total += math.exp(-listmle(row.expand(4, 4), teacher, 0.4).item())
    assert total == pytest.approx(1, rel=1e-12)


def test_a_teacher_with_ties_and_saturated_cosines_is_finite() -> None:
    row = torch.ones(16, 8)
    clusters = torch.cat([row[:8], -row[8:]])
    for drop_positive in (False, True):
        stack = torch.stack([clusters, -clusters.flip(0)]).requires_grad_()
        loss = ListMLE("rank", 0.01, drop_positive=drop_positive)(scores(stack, clusters))
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(stack.grad).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_small_temperature_in_float32(seed: int) -> None:
    """Logits up to ±100: the value and the gradient stay those of float64."""
    exact, teacher = cosines_of(24, 24, seed=seed) * 0.999, cosines_of(24, 24, seed=seed + 1)
    single, double = exact.float().requires_grad_(), exact.float().double().requires_grad_()
    found, expected = (listmle(single, teacher.to(single), 0.01), listmle(double, teacher.to(double), 0.01))
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    (gradient,), (reference,) = torch.autograd.grad(found, single), torch.autograd.grad(expected, double)
    assert torch.allclose(gradient.double(), reference, atol=1e-3 * reference.abs().max().item())
