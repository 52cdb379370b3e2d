"""Word repetition (ESimCSE: Wu et al., COLING 2022, Sec. 3.1), of subwords. https://aclanthology.org/2022.coling-1.342."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from isotrope.tokens._inner import frame, inner, per_token, random_order
from isotrope.types import Fraction


def repeats(
    attention_mask: Tensor, ratio: float, max_length: int, generator: torch.Generator, first: int = 1
) -> Tensor:
    """Which tokens are said twice: 0 to max(2, ⌊ratio·n⌋) of n, all numbers as likely. (N, L) -> (N, L) bool."""
    among = inner(attention_mask, first)
    most = (ratio * among.sum(dim=1, keepdim=True)).long().clamp(min=2)  # (N, 1)
    count = (torch.rand(len(among), 1, generator=generator).to(among.device) * (most + 1)).long()
    room = max_length - attention_mask.sum(dim=1, keepdim=True)
    return among & (random_order(among, generator).argsort(dim=1) < count.minimum(room))


def with_repeats(values: Tensor, attention_mask: Tensor, twice: Tensor) -> Tensor:
    """Real tokens from the left, those of ``twice`` two times, then zeros. (N, L) -> (N, L'), L' >= the longest."""
    real = attention_mask.bool()
    end = (real.long() + twice).cumsum(dim=1)  # (N, L) the place behind a token's last copy
    width = int(end[:, -1].max())
    wide = values.new_zeros(len(values), width + 1)  # the last column takes what is not wanted
    wide.scatter_(1, torch.where(real, end - 1, width), values)
    wide.scatter_(1, torch.where(twice, end - 2, width), values)
    return wide[:, :width]


@dataclass(frozen=True)
class Repeat:
    """Changes a sentence's length, not its meaning; the batch may become wider. BibTeX: wu2022esimcse.

    ``max_length``: sentences do not grow beyond it, since encoders have so many positions.
    """

    stage = "tokens"
    ratio: Fraction = 0.32
    max_length: Annotated[int, Field(ge=3)] = 512

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        mask = features["attention_mask"]
        twice = repeats(mask, self.ratio, self.max_length, generator, frame(features))
        return {**features, **{name: with_repeats(value, mask, twice) for name, value in per_token(features).items()}}
