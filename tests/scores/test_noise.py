"""DCLR's noise and weights against loops, autograd, the golden numbers and their own mathematics;
variants.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.drawn import draw, scores
from helpers.refusals import refused
from isotrope import component
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.scores.instance_weight import InstanceWeight, instance_weight
from isotrope.scores.noise import Noise, ascend, gradient, non_uniformity
from isotrope.terms.infonce import InfoNCE
from oracle import debiased as oracle
from oracle import losses


def test_golden_numbers(golden: Path) -> None:
    numbers = np.load(golden / "equations.npz")
    value = {name: torch.from_numpy(np.asarray(numbers[name])) for name in numbers.files}
    noise, h, h_pos = value["noise"], value["h"], value["h_pos"]
    assert non_uniformity(noise, h, h_pos, 0.05).item() == pytest.approx(
        value["noise_loss"].item(), abs=1e-9
    )
    assert torch.allclose(gradient(noise, h, 0.05), value["noise_grad"], rtol=0, atol=1e-9)
    assert torch.allclose(
        ascend(noise, h, h_pos, 0.05, 1e-3, 4), value["noise_after_4"], rtol=0, atol=1e-9
    )
    assert torch.allclose(
        ascend(noise, h, h_pos, 0.05, 1e-1, 4), value["noise_after_4_big"], rtol=0, atol=1e-9
    )
    single = ascend(noise.float(), h.float(), h_pos.float(), 0.05, 1e-3, 4).double()
    assert torch.allclose(single, value["noise_after_4"], rtol=0, atol=1e-4)


def test_equals_the_loops() -> None:
    noise, anchor, positive = draw(3, 4), draw(5, 4, seed=1), draw(5, 4, seed=2)
    expected = oracle.non_uniformity(noise.tolist(), anchor, positive, 0.3)
    assert non_uniformity(noise, anchor, positive, 0.3).item() == pytest.approx(expected, rel=1e-12)
    slopes = torch.tensor(
        oracle.gradient(noise.tolist(), anchor, positive, 0.3), dtype=torch.float64
    )
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
def test_small_steps_never_lower_the_loss(
    count: int, vectors: int, scale: float, seed: int
) -> None:
    noise, anchor, positive = (
        draw(vectors, 5, seed=seed),
        draw(count, 5, seed=seed + 1),
        draw(count, 5, seed=seed + 2),
    )
    moved = ascend(noise, anchor, positive, 0.1, 1e-4, 1)
    assert non_uniformity(moved, anchor, positive, 0.1) >= non_uniformity(
        noise, anchor, positive, 0.1
    )
    assert torch.allclose(
        (moved - noise).norm(dim=1), torch.full((vectors,), 1e-4, dtype=torch.float64), rtol=1e-6
    )
    # only the anchors' directions count, and neither the positives nor the order of the anchors
    assert torch.allclose(
        ascend(noise, scale * anchor.flip(0), -positive, 0.1, 1e-4, 1), moved, rtol=0, atol=1e-12
    )


def test_options() -> None:
    stack = draw(2, 4, 48)
    start = Noise(steps=0)(scores(stack)).extra
    assert start.equal(torch.randn(4, 48, generator=torch.Generator().manual_seed(0)).double())
    absolute, relative = (
        Noise(step_size=0.01)(scores(stack)).extra,
        Noise(step_size=0.01, relative=True)(scores(stack)),
    )
    assert torch.allclose(
        (absolute - start).norm(dim=1), torch.tensor(0.04, dtype=torch.float64), rtol=1e-3
    )
    walked = (relative.extra - start).norm(dim=1) / start.norm(dim=1)
    assert torch.allclose(walked, torch.tensor(0.04, dtype=torch.float64), rtol=1e-2)
    with refused("impossible-value", "scores.noise.steps"):
        component("scores", "noise", steps=-1)


def test_no_gradient_runs_back_through_the_ascent() -> None:
    """The anchors learn from the noise where it stands."""
    stack, step = draw(3, 3, 4).requires_grad_(), Noise(ratio=2.0, step_size=0.3)
    fixed = step(scores(stack)).extra
    assert not fixed.requires_grad
    (found,) = torch.autograd.grad(InfoNCE(0.2)(step(scores(stack))), stack)
    (expected,) = torch.autograd.grad(InfoNCE(0.2)(scores(stack).with_extra(fixed)), stack)
    assert torch.equal(found, expected)


def test_golden_numbers_of_weights(golden: Path) -> None:
    """Eq. 5, and Eq. 6 through the classes, for one positive and for two."""
    numbers = np.load(golden / "equations.npz")
    value = {name: torch.from_numpy(np.asarray(numbers[name])) for name in numbers.files}
    phi, count = value["phi"].item(), len(value["h"])
    square = value["alpha"][:, :count].clone()
    assert instance_weight(value["guide"], phi).equal(square.fill_diagonal_(1))
    # Unit rows whose products are the golden cosines / 2 off the diagonal: these are no one's, G
    # has negative
    # eigenvalues, but G + 1 = U Λ Uᵀ has none. The threshold shrinks with them.
    levels, axes = torch.linalg.eigh(value["guide"] + torch.eye(count))
    rows = axes * levels.sqrt()
    assert torch.allclose(rows @ rows.T, value["guide"] + torch.eye(count), rtol=0, atol=1e-12)

    def loss(*views: str, inside: bool = True) -> float:
        plain = scores(torch.stack([value[name] for name in views]), rows).with_extra(
            value["noise"]
        )
        weighted = InstanceWeight("guide", phi / 2)(plain)
        assert weighted.keep.equal(torch.cat([square, value["alpha"][:, count:]], dim=1))
        return InfoNCE(positive_in_denominator=inside)(weighted).item()

    assert loss("h", "h_pos", inside=False) == pytest.approx(
        value["debiased_printed"].item(), abs=1e-9
    )
    assert loss("h", "h_pos") == pytest.approx(value["debiased_with_positive"].item(), abs=1e-9)
    assert loss("h", "h_pos", "h_pos2") == pytest.approx(value["contrast_all"].item(), abs=1e-9)


@pytest.mark.parametrize("threshold", [-2.0, -0.2, 0.0, 0.4, 1.1])
@pytest.mark.parametrize("shape", [(5, 5), (4, 7)])
def test_weights_equal_the_loops(shape: tuple[int, int], threshold: float) -> None:
    teacher = torch.tanh(draw(*shape))
    teacher[0, 1] = threshold  # reaching it is enough
    assert instance_weight(teacher, threshold).tolist() == oracle.instance_weight(
        teacher, threshold
    )


def test_weights_and_noise_reach_every_positive() -> None:
    """Two positives, noise, a removed pair: as many loops as the equation has indices."""
    stack, guide = draw(3, 5, 6), draw(5, 6, seed=9)
    guide[3] = 2 * guide[1] + 0.01  # the teacher takes these two for one
    weighted = InstanceWeight("guide", 0.9)(Noise(ratio=0.8)(scores(stack, guide)))
    assert (weighted.keep == 0).nonzero().tolist() == [[1, 3], [3, 1]]
    candidates = [torch.cat([stack[p], weighted.extra]) for p in (1, 2)]
    expected = sum(
        losses.infonce(losses.cosines(stack[0], c), 0.05, weighted.keep) for c in candidates
    )
    assert InfoNCE()(weighted).item() == pytest.approx(expected, rel=1e-10)
    for without in (
        InstanceWeight("guide", 0.9)(scores(stack, guide)),
        Noise(ratio=0.8)(scores(stack, guide)),
    ):
        assert InfoNCE()(without).item() != pytest.approx(expected, rel=1e-6)


def test_weights_add_up_and_leave_other_candidates() -> None:
    plain = HardNegatives()(Noise()(scores(draw(2, 4, 6), hard=1)))
    closed = torch.ones_like(plain.keep)
    closed[0, 5] = 0
    weighted = InstanceWeight("guide", -2.0)(replace(plain, keep=closed))
    assert weighted.keep[:, :4].equal(torch.eye(4, dtype=torch.float64))
    assert weighted.keep[:, 4:].equal(closed[:, 4:])


def test_noise_weighted_by_the_teacher() -> None:
    """The paper's Eq. 5 for all candidates: the noise vector that lies on a teacher's sentence
    goes, for that one.
    """
    guide = torch.eye(4, 6, dtype=torch.float64)
    plain = scores(draw(2, 4, 6), guide).with_extra(torch.stack([3 * guide[2], -guide[0]]))
    weighted = InstanceWeight("guide", 0.9, noise=True)(plain)
    expected = torch.ones(4, 6, dtype=torch.float64)
    expected[2, 4] = 0
    assert weighted.keep.equal(expected)
    with refused("another-width"):
        InstanceWeight("guide", noise=True)(scores(draw(2, 4, 6), torch.eye(4, 7)))


def test_the_students_own_weights() -> None:
    stack = draw(1, 4, 6) + 0.01 * draw(3, 4, 6, seed=1)
    stack[:, 1] = stack[:, 0] + 0.01
    plain = scores(stack.requires_grad_()).with_extra(stack[0, 2:3].detach())
    weighted = InstanceWeight("self", 0.9)(plain)
    own = sum(losses.cosines(stack[0], stack[p]) for p in (1, 2)) / 2
    assert weighted.keep[:, :4].tolist() == oracle.instance_weight(own, 0.9)
    assert weighted.keep[0, 1] == 0
    assert weighted.keep[2, 4] == 1
    assert InstanceWeight("self", 0.9, noise=True)(plain).keep[2, 4] == 0
    assert not weighted.keep.requires_grad
