"""Token and feature cutoff as ConSERT's code has them: in the output of the embedding layer.

ConSERT: Yan et al., ACL 2021, Sec. 3.2, https://aclanthology.org/2021.acl-long.393; DCLR Sec. 6.1. ``cutoff`` erases in
the input instead: no layer sees a token that it cuts off.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from isotrope.contract.features import LAYER_FEATURES, LAYER_TOKENS
from isotrope.tokens._inner import random_order
from isotrope.tokens.cutoff import feature_cutoff
from isotrope.types import Fraction


def token_cutoff(keep: Tensor, attention_mask: Tensor, ratio: float, generator: torch.Generator) -> Tensor:
    """Erase ⌊ratio·n⌋ of a sentence's n tokens, [CLS] and [SEP] among them. keep (N, L), mask (N, L) -> (N, L)."""
    real = attention_mask.bool()
    rank = random_order(real, generator).argsort(dim=1)  # (N, L) a random rank for every real token
    return keep.masked_fill(rank < (ratio * real.sum(dim=1, keepdim=True).double()).long(), 0.0)


@dataclass(frozen=True)
class LayerCutoff:
    """What is cut off is 0 behind positions, norm and dropout. BibTeX: yan2021consert.

    A token that is cut off keeps its place in attention and in the pooling. A feature is cut off in all tokens of a
    sentence. What stays is not scaled up.
    """

    stage = "tokens"
    unit: Literal["token", "feature"] = "token"
    ratio: Fraction = 0.15

    @property
    def needs(self) -> tuple[str, ...]:
        return (LAYER_TOKENS,) if self.unit == "token" else (LAYER_FEATURES,)

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        (name,) = self.needs
        if self.unit == "feature":
            return {**features, name: feature_cutoff(features[name], self.ratio, generator)}
        return {**features, name: token_cutoff(features[name], features["attention_mask"], self.ratio, generator)}
