"""DiffCSE's head: one batch of views and hard negatives, normalised by its own mean and variance."""

from __future__ import annotations

import torch

from drawn import draw
from isotrope.types import Batch, Views
from isotrope.views.projector import Projector


def views(stack: torch.Tensor, hard: int) -> Views:
    count, dim = stack.shape[1:]
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    return Views(batch, stack, draw(count, hard, dim, seed=1), {})


def test_equals_the_steps_by_hand() -> None:
    torch.manual_seed(0)
    made, given = Projector(4).double(), views(draw(2, 5, 4), 1)
    found = made(given)

    def normalised(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=0)) / (x.var(dim=0, unbiased=False) + 1e-5).sqrt()

    rows = torch.cat([given.stack[0], given.stack[1], given.negatives[:, 0]])
    wide = torch.relu(normalised(rows @ made.net[0].weight.T))
    expected = normalised(wide @ made.net[3].weight.T)
    assert torch.allclose(torch.cat([*found.stack, found.negatives[:, 0]]), expected)
    assert found.stack.shape == given.stack.shape


def test_without_hard_negatives() -> None:
    made, given = Projector(4).double(), views(draw(2, 5, 4), 0)
    assert made(given).negatives.shape == (5, 0, 4)
