"""The community's ranking consistency, against loops; it rewards entropy."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isotrope.released.clamped import Clamped, clamped_consistency
from isotrope.terms.consistency import consistency
from isotrope.types import Batch, Scores, Views
from oracle import released as oracle


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores(stack: Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


def test_the_clamped_consistency_rewards_entropy() -> None:
    cosines = torch.tanh(draw(5, 5))
    assert clamped_consistency(cosines, 0.3).item() == pytest.approx(oracle.consistency(cosines, 0.3), rel=1e-10)
    assert clamped_consistency(cosines, 0.05).item() == pytest.approx(oracle.consistency(cosines, 0.05), rel=1e-10)
    assert torch.autograd.gradcheck(lambda c: clamped_consistency(c, 0.3), cosines.clone().requires_grad_())
    flat_lists, sharp = torch.zeros(5, 5, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    for agreeing in (flat_lists, sharp):
        assert consistency(agreeing, 0.3).item() == 0
    assert clamped_consistency(flat_lists, 0.3) < clamped_consistency(sharp, 0.3) < 0
    plain = scores(draw(2, 5, 6))
    assert Clamped(weight=0.5)(plain).item() == pytest.approx(clamped_consistency(plain.pairs, 0.05).item() / 2)
