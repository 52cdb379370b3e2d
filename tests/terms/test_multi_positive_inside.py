"""WhitenedCSE's Eq. 8 against loops, the golden numbers and its own mathematics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isotrope import component
from isotrope.terms.infonce import infonce
from isotrope.terms.multi_positive_inside import MultiPositiveInside, multi_positive_inside
from isotrope.types import Batch, Scores, Views
from oracle import losses as oracle


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores(stack: Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator())
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


@pytest.mark.parametrize("printed", [True, False])
@pytest.mark.parametrize("shape", [(1, 5, 5), (2, 4, 7), (4, 3, 3)])
@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_equals_the_loops(shape: tuple[int, ...], weight: float, printed: bool) -> None:
    cosines = torch.tanh(draw(*shape))
    expected = oracle.multi_positive_inside(cosines, 0.3, weight, printed)
    assert multi_positive_inside(cosines, 0.3, weight, printed).item() == pytest.approx(expected, abs=1e-10)
    single = multi_positive_inside(cosines.float(), 0.3, weight, printed).item()
    assert single == pytest.approx(expected, abs=1e-5)


def test_golden_numbers(golden: Path) -> None:
    numbers = np.load(golden / "equations.npz")
    stack = torch.from_numpy(np.stack([numbers["h"], numbers["h_pos"], numbers["h_pos2"]]))
    cosines = scores(stack).cosines
    assert multi_positive_inside(cosines, 0.05).item() == pytest.approx(
        float(numbers["multi_positive_l2_intended"]), abs=1e-9
    )
    printed = multi_positive_inside(cosines, 0.05, printed=True).item()
    assert printed == pytest.approx(float(numbers["multi_positive_l2"]), abs=1e-9)
    single = MultiPositiveInside()(scores(stack.float())).item()
    assert single == pytest.approx(float(numbers["multi_positive_l2_intended"]), abs=1e-4)


@pytest.mark.parametrize("printed", [True, False])
def test_gradient(printed: bool) -> None:
    cosines = torch.tanh(draw(3, 4, 6)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: multi_positive_inside(c, 0.2, 0.5, printed), cosines)


def test_descending_pulls_and_the_printed_form_pushes() -> None:
    for printed in (False, True):
        stack = draw(3, 8, 6).requires_grad_()
        before = scores(stack.detach()).cosines.diagonal(dim1=1, dim2=2).mean()
        for _ in range(50):
            (grad,) = torch.autograd.grad(MultiPositiveInside(printed=printed)(scores(stack)), stack)
            stack = (stack - 0.1 * grad).detach().requires_grad_()
        after = scores(stack.detach()).cosines.diagonal(dim1=1, dim2=2).mean()
        assert (after < before) if printed else (after > before)


def test_the_farthest_positive_is_pulled_hardest() -> None:
    cosines = torch.zeros(2, 3, 3, dtype=torch.float64)
    cosines[0] += 0.9 * torch.eye(3)
    cosines[1] += 0.2 * torch.eye(3)
    cosines.requires_grad_()
    multi_positive_inside(cosines, 0.05).backward()
    assert cosines.grad is not None
    near, far = cosines.grad.diagonal(dim1=1, dim2=2).mean(1)
    assert far < near <= 0


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 10_000))
def test_permuting_the_batch_leaves_the_loss(count: int, positives: int, seed: int) -> None:
    stack = draw(1 + positives, count, 6, seed=seed)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    term = MultiPositiveInside()
    assert term(scores(stack[:, order])).item() == pytest.approx(term(scores(stack)).item(), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_one_positive_is_infonce_and_removed_candidates_leave(seed: int) -> None:
    found = scores(draw(2, 5, 6, seed=seed))
    keep = ((draw(5, 5, seed=seed + 1) > 0) | torch.eye(5, dtype=torch.bool)).double()
    masked = Scores(found.views, found.extra, found.cosines, keep)
    expected = infonce(found.cosines, 0.05, keep).item()
    assert MultiPositiveInside()(masked).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_every_positive_sees_noise_and_weights() -> None:
    base = scores(draw(3, 5, 6))
    noisy = base.with_extra(draw(4, 6, seed=2))
    keep = noisy.keep.clone()
    keep[:, 5:] = 0
    term = MultiPositiveInside()
    assert term(noisy).item() > term(base).item()
    assert term(Scores(noisy.views, noisy.extra, noisy.cosines, keep)).item() == pytest.approx(term(base).item())


@pytest.mark.parametrize("printed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_finite_at_saturated_similarities(dtype: torch.dtype, printed: bool) -> None:
    stack = torch.ones(3, 4, 8, dtype=dtype).requires_grad_()
    found = scores(stack)
    nothing = Scores(found.views, found.extra, found.cosines, torch.eye(4))  # an empty set of negatives
    loss = MultiPositiveInside(temperature=0.01, printed=printed)(found) + MultiPositiveInside()(nothing)
    loss.backward()
    assert torch.isfinite(loss)
    assert stack.grad is not None
    assert torch.isfinite(stack.grad).all()


def test_weight_multiplies_the_term() -> None:
    term, found = component("terms", "multi_positive_inside", weight=0.5), scores(draw(3, 5, 6))
    assert term(found).item() == pytest.approx(MultiPositiveInside()(found).item() / 2)
    assert component("terms", "multi_positive_inside", weight=0.0)(found).item() == 0.0
