"""Tokens that are said twice, or not at all, which moves those behind them. Both work on subwords.

Word repetition: ESimCSE (Wu et al., COLING 2022, Sec. 3.1), https://aclanthology.org/2022.coling-1.342. Deletion: the
noise of TSDAE (Wang et al., Findings of EMNLP 2021, Sec. 3), https://arxiv.org/abs/2104.06979.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from isotrope.tokens._inner import chosen, copies, inner, share
from isotrope.types import Fraction


def repeats(among: Tensor, ratio: float, room: Tensor, generator: torch.Generator) -> Tensor:
    """Which of the n tokens ``among`` are said twice: 0 to max(2, ⌊ratio·n⌋), all numbers as likely. (N, L) bool.

    No sentence becomes longer by more than its ``room`` (N, 1).
    """
    most = share(ratio, among).clamp(min=2)  # (N, 1)
    count = (torch.rand(len(among), 1, generator=generator).to(among.device) * (most + 1)).long()
    return chosen(among, count.minimum(room), generator)


def deleted(among: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """Which go: each token ``among`` with probability ``ratio``, but never all. (N, L) bool -> (N, L) bool."""
    drawn = torch.rand(among.shape, generator=generator).to(among.device).masked_fill(~among, -1.0)
    return among & (drawn < ratio) & (drawn < drawn.max(dim=1, keepdim=True).values)


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
        room = self.max_length - mask.sum(dim=1, keepdim=True)
        return copies(features, mask + repeats(inner(features), self.ratio, room, generator))


@dataclass(frozen=True)
class Delete:
    """A sentence without some of its tokens; those that stay move together. BibTeX: wang2021tsdae."""

    stage = "tokens"
    ratio: Fraction = 0.6

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        gone = deleted(inner(features), self.ratio, generator)
        return copies(features, features["attention_mask"].masked_fill(gone, 0))
