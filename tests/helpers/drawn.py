"""Random batches for tests of equations: always the same, in float64 unless asked otherwise."""

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import Batch, Scores, Views


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """From N(0, 1)."""
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def cosines_of(*shape: int, seed: int = 0) -> Tensor:
    """Between -1 and 1."""
    return torch.tanh(draw(*shape, seed=seed))


def scores(stack: Tensor, teacher: Tensor | None = None, hard: int = 0) -> Scores:
    """The cosines of views (V, N, D): one teacher, called "rank" and "guide", and ``hard``
    negatives a sentence.
    """
    count, dim = stack.shape[1:]
    rows = F.normalize(draw(count, dim, seed=9) if teacher is None else teacher, dim=-1)
    batch = Batch(torch.arange(count), torch.Generator().manual_seed(0))
    negatives = draw(count, hard, dim, seed=8).to(stack)
    return Scores.from_views(Views(batch, stack, negatives, {"rank": rows, "guide": rows}))
