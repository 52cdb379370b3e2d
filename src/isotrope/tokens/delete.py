"""Deletion of tokens: the noise of TSDAE (Wang et al., Findings of EMNLP 2021, Sec. 3), of subwords.

https://arxiv.org/abs/2104.06979
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.tokens._inner import frame, inner, per_token, places
from isotrope.types import Fraction


def survivors(attention_mask: Tensor, ratio: float, generator: torch.Generator, first: int = 1) -> Tensor:
    """Which tokens stay: each goes with probability ``ratio``; never [CLS], [SEP] or all others. (N, L) -> bool."""
    among = inner(attention_mask, first)
    drawn = torch.rand(among.shape, generator=generator).to(among.device).masked_fill(~among, -1.0)
    last = among & (drawn == drawn.max(dim=1, keepdim=True).values)
    return attention_mask.bool() & (~among | (drawn >= ratio) | last)


def without_gaps(values: Tensor, stay: Tensor) -> Tensor:
    """The values that stay, from the left, then zeros. (N, L) -> (N, L'), L' of the longest."""
    return (values * stay).gather(1, places(stay))[:, : int(stay.sum(dim=1).max())]


@dataclass(frozen=True)
class Delete:
    """A sentence without some of its tokens; those that stay move together. BibTeX: wang2021tsdae."""

    stage = "tokens"
    ratio: Fraction = 0.6

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        stay = survivors(features["attention_mask"], self.ratio, generator, frame(features))
        return {**features, **{name: without_gaps(value, stay) for name, value in per_token(features).items()}}
