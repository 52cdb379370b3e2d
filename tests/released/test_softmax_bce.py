"""DCLR's loss as released, against loops, and where it is finite."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isotrope.released.softmax_bce import SoftmaxBCE, softmax_bce
from isotrope.terms.infonce import InfoNCE
from isotrope.types import Batch, Scores, Views
from oracle import released as oracle


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores(stack: Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


@pytest.mark.parametrize("shape", [(4, 4), (4, 7)])
def test_softmax_bce_equals_the_loops(shape: tuple[int, int]) -> None:
    cosines, keep = torch.tanh(draw(*shape)), (draw(*shape, seed=1) > -0.5).double()
    keep.fill_diagonal_(1)
    whole = torch.ones_like(keep)
    assert softmax_bce(cosines, 0.3).item() == pytest.approx(oracle.softmax_bce(cosines, 0.3, whole), rel=1e-10)
    assert softmax_bce(cosines, 0.3, keep).item() == pytest.approx(oracle.softmax_bce(cosines, 0.3, keep), rel=1e-10)
    both = torch.stack([cosines, cosines.flip(1)])
    expected = sum(oracle.softmax_bce(matrix, 0.3, keep) for matrix in both)
    assert softmax_bce(both, 0.3, keep).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda c: softmax_bce(c, 0.3, keep), both.requires_grad_())


@pytest.mark.parametrize("case", ["equal", "hopeless", "perfect"])
def test_softmax_bce_is_finite_where_its_model_is_not(case: str) -> None:
    """p = 1 for a negative, or for the positive, in float32 at τ = .01; all the same."""
    rows = torch.eye(4).requires_grad_()
    other = {"equal": torch.ones(4, 4), "hopeless": torch.eye(4).roll(1, 0), "perfect": torch.eye(4)}[case]
    loss = SoftmaxBCE(temperature=0.01)(scores(torch.stack([rows if case != "equal" else rows * 0 + 1, other])))
    loss.backward()
    assert torch.isfinite(loss)
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


def test_softmax_bce_learns_what_infonce_learns() -> None:
    stack = draw(2, 6, 8).requires_grad_()
    ours, theirs = (torch.autograd.grad(term(scores(stack)), stack)[0] for term in (InfoNCE(0.3), SoftmaxBCE(0.3)))
    assert torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.8
