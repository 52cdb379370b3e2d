"""Deletion of tokens: the noise of TSDAE (Wang et al., Findings of EMNLP 2021, Sec. 3), of subwords.

https://arxiv.org/abs/2104.06979
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.tokens._inner import copies, inner
from isotrope.types import Fraction


def deleted(among: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """Which go: each token ``among`` with probability ``ratio``, but never all. (N, L) bool -> (N, L) bool."""
    drawn = torch.rand(among.shape, generator=generator).to(among.device).masked_fill(~among, -1.0)
    return among & (drawn < ratio) & (drawn < drawn.max(dim=1, keepdim=True).values)


@dataclass(frozen=True)
class Delete:
    """A sentence without some of its tokens; those that stay move together. BibTeX: wang2021tsdae."""

    stage = "tokens"
    ratio: Fraction = 0.6

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        gone = deleted(inner(features), self.ratio, generator)
        return copies(features, features["attention_mask"].masked_fill(gone, 0))
