"""DCLR's noise as released: it ascends a loss that has the batch in its denominator."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.released.against_batch import AgainstBatch, gradient_against_batch
from isotrope.scores.noise import Noise
from isotrope.types import Batch, Scores, Views
from oracle import released as oracle


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores(stack: Tensor) -> Scores:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    return Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, dim), {}))


def test_the_released_ascent() -> None:
    """Against differences of the loss with the whole batch in its denominator; it goes elsewhere than Eq. 3."""
    noise, anchor, positive = draw(3, 4), draw(5, 4, seed=1), draw(5, 4, seed=2)
    batch = F.normalize(anchor, dim=1) @ F.normalize(positive, dim=1).T
    width, slopes = 1e-5, torch.zeros(3, 4, dtype=torch.float64)
    for j in range(3):
        for d in range(4):
            sides = []
            for sign in (1, -1):
                moved = noise.clone()
                moved[j, d] += sign * width
                sides.append(oracle.non_uniformity(moved.tolist(), anchor, positive, 0.3))
            slopes[j, d] = (sides[0] - sides[1]) / (2 * width)
    assert torch.allclose(gradient_against_batch(noise, anchor, batch, 0.3), slopes, rtol=0, atol=1e-8)
    stack = torch.stack([anchor, positive, draw(5, 4, seed=3)])
    steps = {"ratio": 0.6, "step_size": 0.2, "temperature": 0.3}
    found, paper = AgainstBatch(**steps)(scores(stack)).extra, Noise(**steps)(scores(stack)).extra
    expected = Noise(ratio=0.6, steps=0)(scores(stack)).extra
    for _ in range(4):
        expected = expected + 0.2 * F.normalize(gradient_against_batch(expected, anchor, batch, 0.3), dim=1)
    assert torch.allclose(found, expected)
    assert not torch.allclose(found, paper, atol=1e-3)
