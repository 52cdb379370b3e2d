"""DCLR's noise negatives against loops, autograd, the golden numbers and their own mathematics."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope import component
from isotrope.errors import UserError
from isotrope.scores.noise import Noise, ascend, gradient, non_uniformity
from isotrope.terms.infonce import InfoNCE
from oracle import debiased as oracle


def test_golden_numbers(golden: Path) -> None:
    numbers = np.load(golden / "equations.npz")
    value = {name: torch.from_numpy(np.asarray(numbers[name])) for name in numbers.files}
    noise, h, h_pos = value["noise"], value["h"], value["h_pos"]
    assert non_uniformity(noise, h, h_pos, 0.05).item() == pytest.approx(value["noise_loss"].item(), abs=1e-9)
    assert torch.allclose(gradient(noise, h, 0.05), value["noise_grad"], rtol=0, atol=1e-9)
    assert torch.allclose(ascend(noise, h, h_pos, 0.05, 1e-3, 4), value["noise_after_4"], rtol=0, atol=1e-9)
    assert torch.allclose(ascend(noise, h, h_pos, 0.05, 1e-1, 4), value["noise_after_4_big"], rtol=0, atol=1e-9)
    single = ascend(noise.float(), h.float(), h_pos.float(), 0.05, 1e-3, 4).double()
    assert torch.allclose(single, value["noise_after_4"], rtol=0, atol=1e-4)


def test_equals_the_loops() -> None:
    noise, anchor, positive = draw(3, 4), draw(5, 4, seed=1), draw(5, 4, seed=2)
    expected = oracle.non_uniformity(noise.tolist(), anchor, positive, 0.3)
    assert non_uniformity(noise, anchor, positive, 0.3).item() == pytest.approx(expected, rel=1e-12)
    slopes = torch.tensor(oracle.gradient(noise.tolist(), anchor, positive, 0.3), dtype=torch.float64)
    assert torch.allclose(gradient(noise, anchor, 0.3), slopes, rtol=0, atol=1e-8)
    moved = torch.tensor(oracle.ascend(noise, anchor, positive, 0.3, 0.2, 3), dtype=torch.float64)
    assert torch.allclose(ascend(noise, anchor, positive, 0.3, 0.2, 3), moved, rtol=0, atol=1e-7)


@pytest.mark.parametrize("temperature", [0.01, 0.05, 1.0])
def test_the_closed_form_is_autograds(temperature: float) -> None:
    noise, anchor, positive = draw(6, 8).requires_grad_(), draw(5, 8, seed=1), draw(5, 8, seed=2)
    (expected,) = torch.autograd.grad(non_uniformity(noise, anchor, positive, temperature), noise)
    assert torch.allclose(gradient(noise, anchor, temperature), expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 10), st.integers(0, 10_000))
def test_small_steps_never_lower_the_loss(count: int, vectors: int, scale: float, seed: int) -> None:
    noise, anchor, positive = draw(vectors, 5, seed=seed), draw(count, 5, seed=seed + 1), draw(count, 5, seed=seed + 2)
    moved = ascend(noise, anchor, positive, 0.1, 1e-4, 1)
    assert non_uniformity(moved, anchor, positive, 0.1) >= non_uniformity(noise, anchor, positive, 0.1)
    assert torch.allclose((moved - noise).norm(dim=1), torch.full((vectors,), 1e-4, dtype=torch.float64), rtol=1e-6)
    # only the anchors' directions count, and neither the positives nor the order of the anchors
    assert torch.allclose(ascend(noise, scale * anchor.flip(0), -positive, 0.1, 1e-4, 1), moved, rtol=0, atol=1e-12)


def test_options() -> None:
    stack = draw(2, 4, 48)
    start = Noise(steps=0)(scores(stack)).extra
    assert start.equal(torch.randn(4, 48, generator=torch.Generator().manual_seed(0)).double())
    absolute, relative = Noise(step_size=0.01)(scores(stack)).extra, Noise(step_size=0.01, relative=True)(scores(stack))
    assert torch.allclose((absolute - start).norm(dim=1), torch.tensor(0.04, dtype=torch.float64), rtol=1e-3)
    walked = (relative.extra - start).norm(dim=1) / start.norm(dim=1)
    assert torch.allclose(walked, torch.tensor(0.04, dtype=torch.float64), rtol=1e-2)
    with pytest.raises(UserError, match=r"scores\.noise\.steps = -1"):
        component("scores", "noise", steps=-1)


def test_no_gradient_runs_back_through_the_ascent() -> None:
    """The anchors learn from the noise where it stands."""
    stack, step = draw(3, 3, 4).requires_grad_(), Noise(ratio=2.0, step_size=0.3)
    fixed = step(scores(stack)).extra
    assert not fixed.requires_grad
    (found,) = torch.autograd.grad(InfoNCE(0.2)(step(scores(stack))), stack)
    (expected,) = torch.autograd.grad(InfoNCE(0.2)(scores(stack).with_extra(fixed)), stack)
    assert torch.equal(found, expected)
