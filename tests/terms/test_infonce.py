"""InfoNCE against loops, the golden numbers and its own mathematics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from isotrope.terms.infonce import InfoNCE, infonce
from isotrope.types import Batch, Scores, Views
from oracle import losses as oracle


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def scores(stack: torch.Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator())
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("shape", [(5, 5), (5, 9), (2, 5, 5), (3, 4, 7)])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_equals_the_loops(
    shape: tuple[int, ...], inside: bool, masked: bool, dtype: torch.dtype, tolerance: float
) -> None:
    cosines = torch.tanh(draw(*shape, dtype=dtype))
    keep = (draw(*shape[-2:], seed=1) > -0.3).to(dtype) if masked else None
    if keep is not None:
        keep[:, -1] = 1  # something stays beside the positive
    expected = oracle.infonce(cosines, 0.3, keep, 0.7, inside)
    assert infonce(cosines, 0.3, keep, 0.7, inside).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_golden_numbers(golden: Path) -> None:
    numbers = np.load(golden / "equations.npz")
    value = {name: torch.from_numpy(np.asarray(numbers[name])) for name in numbers.files}
    h, first, second = value["h"], value["h_pos"], value["h_pos2"]
    assert infonce(scores(torch.stack([h, first])).cosines, 0.05).item() == pytest.approx(
        value["infonce"].item(), abs=1e-9
    )
    both = scores(torch.stack([h, first, second]))
    assert infonce(both.cosines, 0.05).item() == pytest.approx(value["multi_positive_l1"].item(), abs=1e-9)
    half = infonce(both.cosines, 0.05, weight=0.5).item()
    assert half == pytest.approx(value["multi_positive_l1_lam05"].item(), abs=1e-9)
    noisy = both.with_extra(value["noise"])
    assert infonce(noisy.cosines, 0.05, value["alpha"]).item() == pytest.approx(value["contrast_all"].item(), abs=1e-9)
    one = scores(torch.stack([h, first])).with_extra(value["noise"])
    printed = infonce(one.cosines, 0.05, value["alpha"], positive_in_denominator=False).item()
    assert printed == pytest.approx(value["debiased_printed"].item(), abs=1e-9)
    inside = infonce(one.cosines, 0.05, value["alpha"]).item()
    assert inside == pytest.approx(value["debiased_with_positive"].item(), abs=1e-9)


def test_golden_numbers_hold_in_float32(golden: Path) -> None:
    numbers = np.load(golden / "equations.npz")
    stack = torch.from_numpy(np.stack([numbers["h"], numbers["h_pos"], numbers["h_pos2"]])).float()
    found = infonce(scores(stack).cosines, 0.05).item()
    assert found == pytest.approx(float(numbers["multi_positive_l1"]), abs=1e-4)


@pytest.mark.parametrize("inside", [True, False])
def test_gradient(inside: bool) -> None:
    keep = (draw(4, 6, seed=2) > -0.5).double()
    cosines = torch.tanh(draw(2, 4, 6)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: infonce(c, 0.2, keep, 0.5, inside), cosines)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 10_000))
def test_permuting_the_batch_leaves_the_loss(count: int, positives: int, seed: int) -> None:
    stack = draw(1 + positives, count, 6, seed=seed)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    term = InfoNCE()
    assert term(scores(stack[:, order])).item() == pytest.approx(term(scores(stack)).item(), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 1000), st.integers(0, 10_000))
def test_scale_of_the_embeddings_does_not_matter(scale: float, seed: int) -> None:
    stack = draw(2, 5, 6, seed=seed)
    assert InfoNCE()(scores(scale * stack)).item() == pytest.approx(InfoNCE()(scores(stack)).item(), rel=1e-9)


def test_weight_zero_removes_the_term() -> None:
    assert InfoNCE(weight=0.0)(scores(draw(2, 5, 6))).item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_finite_at_saturated_similarities(dtype: torch.dtype) -> None:
    stack = torch.ones(2, 4, 8, dtype=dtype).requires_grad_()
    loss = InfoNCE(temperature=0.01)(scores(stack))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(4), rel=1e-2)
    assert stack.grad is not None
    assert torch.isfinite(stack.grad).all()


def test_scores_keep_the_extra_candidates_for_every_positive() -> None:
    stack, extra = draw(3, 4, 5), draw(2, 5, seed=3)
    grown = scores(stack).with_extra(extra)
    assert grown.cosines.shape == (2, 4, 6)
    expected = F.normalize(stack[0], dim=-1) @ F.normalize(extra, dim=-1).T
    assert torch.allclose(grown.cosines[:, :, 4:], expected.expand(2, -1, -1))
    assert torch.allclose(grown.pairs[1], oracle.cosines(stack[0], stack[2]))
