"""Which tokens a token step may touch: those of the sentence, not those of its frame or of a prompt."""

from typing import Any

import torch
from torch import Tensor


def frame(features: dict[str, Any]) -> int:
    """How many tokens stand before each sentence: [CLS], and those of a prompt."""
    length = features.get("prompt_length") or 1  # sentence-transformers counts [CLS] with the prompt
    return int(length.max() if isinstance(length, Tensor) else length)


def inner(attention_mask: Tensor, first: int = 1) -> Tensor:
    """(N, L) -> (N, L) bool: real tokens, but for each sentence's first ones and its last, [CLS] and [SEP]."""
    number = attention_mask.cumsum(dim=1)  # of real tokens up to here
    return attention_mask.bool() & (number > first) & (number < number[:, -1:])


def places(among: Tensor) -> Tensor:
    """(N, L) bool -> (N, L) positions: those of ``among`` first, then the others, all as they stand."""
    return (~among).long().argsort(dim=1, stable=True)


def random_order(among: Tensor, generator: torch.Generator) -> Tensor:
    """(N, L) bool -> (N, L) positions: those of ``among`` first, in random order, then the others as they stand."""
    drawn = torch.rand(among.shape, generator=generator).to(among.device)  # on the CPU, as the generator
    return drawn.masked_fill(~among, 2.0).argsort(dim=1, stable=True)


def per_token(features: dict[str, Any]) -> dict[str, Tensor]:
    """The features that have a value for each token, (N, L)."""
    shape = features["attention_mask"].shape
    return {name: value for name, value in features.items() if getattr(value, "shape", None) == shape}
