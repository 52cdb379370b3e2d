"""Token and span cutoff (ConSERT: Yan et al., ACL 2021, Sec. 3.2; DCLR Sec. 6.1), in the input.

https://aclanthology.org/2021.acl-long.393
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from isotrope.tokens._inner import inner, random_order
from isotrope.types import Fraction


def cutoff(attention_mask: Tensor, ratio: float, span: bool, generator: torch.Generator) -> Tensor:
    """Erase ⌊ratio·n⌋ of each sentence's n tokens, one by one or as a span; never [CLS] or [SEP]. (N, L) -> (N, L)."""
    among = inner(attention_mask)
    count = among.sum(dim=1, keepdim=True)  # (N, 1)
    erased = (ratio * count).long()
    if span:
        start = torch.rand(len(among), 1, generator=generator).to(among.device) * (count - erased + 1)
        place = among.cumsum(dim=1) - 1 - start.long()  # (N, L) counted from the span's first token
    else:
        place = random_order(among, generator).argsort(dim=1)  # (N, L) a random rank for every token
    return attention_mask.masked_fill(among & (place >= 0) & (place < erased), 0)


@dataclass(frozen=True)
class Cutoff:
    """An erased token gets attention 0: no token and no pooling sees it; positions stay. BibTeX: yan2021consert."""

    unit: Literal["token", "span"] = "token"
    ratio: Fraction = 0.15

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        mask = cutoff(features["attention_mask"], self.ratio, self.unit == "span", generator)
        return {**features, "attention_mask": mask}
