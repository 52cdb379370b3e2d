"""DCLR's noise negatives against loops, autograd, the golden numbers and their own mathematics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import draw, scores
from isotrope import Objective, component, load
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


def test_sigma_is_the_spread_of_the_draw() -> None:
    """Eq. 1. Cosines do not see it, but an absolute step does."""
    still, moved = ([Noise(steps=steps, step_size=0.5, sigma=sigma)(scores(draw(2, 9, 400))) for sigma in (1.0, 0.1)]
                    for steps in (0, 4))  # fmt: skip
    assert still[1].extra.std().item() == pytest.approx(0.1, rel=0.05)
    assert torch.allclose(still[1].extra, 0.1 * still[0].extra)
    assert torch.allclose(still[1].cosines, still[0].cosines)
    ways = [(after.cosines - before.cosines).norm() for before, after in zip(still, moved, strict=True)]
    assert ways[1] > 5 * ways[0]
    with pytest.raises(UserError, match=r"scores\.noise\.sigma"):
        component("scores", "noise", sigma=0)


def test_noise_reaches_every_positive_and_every_anchor() -> None:
    plain = scores(draw(3, 4, 6))
    noisy = Noise(ratio=2.5, step_size=0.5)(plain)
    assert noisy.extra.shape == (10, 6)
    assert noisy.keep.equal(torch.ones(4, 14, dtype=torch.float64))
    for positive in range(2):
        assert noisy.pairs[positive].equal(plain.pairs[positive])
        expected = F.normalize(plain.views.stack[0], dim=1) @ F.normalize(noisy.extra, dim=1).T
        assert torch.allclose(noisy.cosines[positive, :, 4:], expected)
        one = scores(plain.views.stack[[0, 1 + positive]]).with_extra(noisy.extra)
        assert torch.allclose(one.cosines[0], noisy.cosines[positive])
    assert InfoNCE()(noisy) > InfoNCE()(plain)


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


@pytest.mark.parametrize("steps", [0, 4])
def test_gradient_of_the_loss(steps: int) -> None:
    """The anchors learn from the noise where it stands: no gradient runs back through the ascent."""
    stack, step = draw(3, 3, 4).requires_grad_(), Noise(ratio=2.0, step_size=0.3, steps=steps)
    fixed = step(scores(stack)).extra
    assert not fixed.requires_grad
    assert torch.autograd.gradcheck(lambda s: InfoNCE(0.2)(scores(s).with_extra(fixed)), stack)
    (found,) = torch.autograd.grad(InfoNCE(0.2)(step(scores(stack))), stack)
    (expected,) = torch.autograd.grad(InfoNCE(0.2)(scores(stack).with_extra(fixed)), stack)
    assert torch.equal(found, expected)


def test_autocast_does_not_reach_the_scores(tiny_model: Path) -> None:
    steps = [Noise(step_size=0.1, relative=True)]
    objective = Objective(load(tiny_model, device="cpu"), {"infonce": InfoNCE()}, scores=steps)
    stack = draw(2, 6, 16, dtype=torch.bfloat16)
    plain = objective.loss(scores(stack).views, objective.scores, objective.terms)["infonce"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = objective.loss(scores(stack).views, objective.scores, objective.terms)["infonce"]
    assert cast.dtype == torch.float32
    assert cast.item() == plain.item()
