"""Random numbers that belong to a batch or to its sentences, wherever they stand and whatever was
drawn before.
"""

import torch
from torch import Tensor


def begun_again(generator: torch.Generator) -> torch.Generator:
    """A generator on the CPU with the seed of another one, as if nothing had been drawn."""
    seed = generator.initial_seed()
    return torch.Generator().manual_seed(seed)


def ranks_of(rows: Tensor) -> Tensor:
    """How many sentences of the batch have a smaller row id: rows (N,) -> (N,)."""
    order = rows.argsort(stable=True)
    return order.argsort(stable=True)
