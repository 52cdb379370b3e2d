"""RankCSE's ranking consistency: against loops, the golden numbers, and as a divergence."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import cosines_of, draw, scores
from isotrope.terms.consistency import consistency
from oracle import ranking as oracle


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (3, 4, 4)])
def test_equals_the_loops(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    cosines = cosines_of(*shape).to(dtype)
    assert consistency(cosines, 0.3).item() == pytest.approx(oracle.consistency(cosines, 0.3), rel=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    value = {name: torch.from_numpy(array) for name, array in np.load(golden / "equations.npz").items()}
    h, positive = (value[name].to(dtype) for name in ("h", "h_pos"))
    cosines, tau = scores(torch.stack([h, positive])).pairs, value["tau"].item()
    found = {"consistency": consistency(cosines, tau)}
    for name, loss in found.items():
        assert loss.dtype == dtype
        assert loss.item() == pytest.approx(value[name].item(), abs=tolerance), name


@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 4)])
def test_gradient(shape: tuple[int, ...]) -> None:
    assert torch.autograd.gradcheck(lambda c: consistency(c, 0.3), cosines_of(*shape).requires_grad_())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.floats(0.01, 1), st.integers(0, 10_000), st.sampled_from([torch.float32, torch.float64]))
def test_identical_views_have_no_inconsistency(count: int, temperature: float, seed: int, dtype: torch.dtype) -> None:
    view = F.normalize(draw(count, 6, seed=seed), dim=-1)
    cosines = (view @ view.T).to(dtype)
    cosines = (cosines.triu() + cosines.triu(1).T).requires_grad_()  # identical views: the transpose is the same list
    loss = consistency(cosines, temperature)
    loss.backward()
    assert loss.item() == 0.0
    assert cosines.grad is not None
    assert cosines.grad.abs().max().item() <= 10 / temperature * torch.finfo(dtype).eps


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.floats(0.01, 1), st.integers(0, 10_000))
def test_consistency_is_a_divergence(count: int, temperature: float, seed: int) -> None:
    """Between 0 and log 2, and no matter which view is the anchor."""
    cosines = cosines_of(count, count, seed=seed)
    loss = consistency(cosines, temperature).item()
    assert 0 < loss <= math.log(2) * (1 + 1e-12)
    assert consistency(cosines.T, temperature).item() == pytest.approx(loss, rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_small_temperature_in_float32(seed: int) -> None:
    """Logits up to ±100: the value and the gradient stay those of float64."""
    exact = cosines_of(24, 24, seed=seed) * 0.999
    single, double = exact.float().requires_grad_(), exact.float().double().requires_grad_()
    found, expected = (consistency(single, 0.01), consistency(double, 0.01))
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    (gradient,), (reference,) = torch.autograd.grad(found, single), torch.autograd.grad(expected, double)
    assert torch.allclose(gradient.double(), reference, atol=1e-3 * reference.abs().max().item())
