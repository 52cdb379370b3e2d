"""Which tokens a token step may touch, read from the attention mask alone."""

from __future__ import annotations

import torch
from torch import Tensor


def inner(attention_mask: Tensor) -> Tensor:
    """(N, L) -> (N, L) bool: real tokens, but for each sentence's first and last, [CLS] and [SEP]."""
    number = attention_mask.cumsum(dim=1)  # of real tokens up to here
    return attention_mask.bool() & (number > 1) & (number < number[:, -1:])


def random_order(among: Tensor, generator: torch.Generator) -> Tensor:
    """(N, L) bool -> (N, L) positions: those of ``among`` first, in random order, then the others as they stand."""
    drawn = torch.rand(among.shape, generator=generator).to(among.device)  # on the CPU, as the generator
    return drawn.masked_fill(~among, 2.0).argsort(dim=1, stable=True)
