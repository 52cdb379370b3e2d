"""The mean of several positives, against a loop."""

from __future__ import annotations

import pytest
import torch

from drawn import draw
from isotrope.types import Batch, Views
from isotrope.views.mean_positive import MeanPositive, mean_positive


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_loop(dtype: torch.dtype) -> None:
    positives, further = draw(2, 4, 3, dtype=dtype), draw(4, 2, 3, seed=1, dtype=dtype)
    found = mean_positive(positives, further)
    for view in range(2):
        for row in range(4):
            assert torch.allclose(found[view, row], (positives[view, row] + further[row, 0] + further[row, 1]) / 3)
    assert torch.autograd.gradcheck(mean_positive, (draw(1, 3, 2).requires_grad_(), draw(3, 2, 2).requires_grad_()))


def test_further_texts_are_no_hard_negatives_any_more() -> None:
    views = Views(Batch(torch.arange(4), torch.Generator()), draw(2, 4, 3), draw(4, 1, 3, seed=1), {})
    after = MeanPositive()(views)
    assert torch.equal(after.stack[0], views.stack[0])
    assert torch.equal(after.stack[1], (views.stack[1] + views.negatives[:, 0]) / 2)
    assert after.negatives.shape == (4, 0, 3)
    assert torch.equal(MeanPositive()(after).stack, after.stack), "one positive is its own mean"
