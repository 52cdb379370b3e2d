"""Cutoff of tokens, spans or features (ConSERT: Yan et al., ACL 2021).
https://aclanthology.org/2021.acl-long.393
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from isotrope.contract.draws import begun_again
from isotrope.contract.features import KEEP, LAYER_FEATURES, LAYER_TOKENS
from isotrope.tokens._inner import (
    Features,
    chosen,
    inner,
    random_below,
    row_counts,
    share,
    uniform,
)
from isotrope.types import Fraction


def cutoff(
    among: Tensor,  # (N, L) bool
    ratio: float,
    span: bool,
    generator: torch.Generator,
) -> Tensor:
    """Draw which tokens are erased, one by one or as a span -> (N, L) bool.

    They are ⌊ratio·n⌋ of the n tokens ``among``.
    """
    erased = share(ratio, among)  # (N, 1)
    if not span:
        return chosen(among, erased, generator)

    possible_starts = row_counts(among) - erased + 1  # (N, 1)
    start = random_below(possible_starts, generator)
    end = start + erased
    number = among.cumsum(dim=1) - 1  # (N, L) counted from 0
    in_span = (start <= number) & (number < end)
    return among & in_span


def feature_cutoff(
    keep: Tensor,  # (N, 1, d)
    ratio: float,
    generator: torch.Generator,
) -> Tensor:
    """Erase ⌊ratio·d⌋ of the d features, the same ones in all tokens of a sentence -> (N, 1, d)."""
    order = uniform(keep, generator).argsort(dim=-1)
    rank = order.argsort(dim=-1)
    erased = int(ratio * keep.shape[-1])
    return keep.masked_fill(rank < erased, 0)


@dataclass(frozen=True)
class Cutoff:
    """An erased token gets attention 0: no token and no pooling sees it; positions stay. BibTeX:
    yan2021consert.

    ``unit = "nested"`` is a span that begins in all passes at the same share of what is possible,
    so that the spans of two ratios lie within each other. An erased feature is 0 in all token
    embeddings, before positions are added, as the paper has it: no layer sees it. What stays is not
    scaled up.
    """

    stage = "tokens"
    unit: Literal["token", "span", "nested", "feature"] = "token"
    ratio: Fraction = 0.15

    @property
    def needs(self) -> tuple[str, ...]:
        return (KEEP,) if self.unit == "feature" else ()

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        if self.unit == "feature":
            keep = feature_cutoff(features[KEEP], self.ratio, generator)
            return {**features, KEEP: keep}
        if self.unit == "nested":  # drawn from the batch's seed, whatever was drawn since
            generator = begun_again(generator)
        is_span = self.unit != "token"
        erased = cutoff(inner(features), self.ratio, is_span, generator)
        mask = features["attention_mask"].masked_fill(erased, 0)
        return {**features, "attention_mask": mask}


@dataclass(frozen=True)
class LayerCutoff:
    """What is cut off is 0 behind positions, norm and dropout, as in ConSERT's code. BibTeX:
    yan2021consert.

    A token that is cut off, which [CLS] and [SEP] may be too, keeps its place in attention and in
    the pooling.
    """

    stage = "tokens"
    unit: Literal["token", "feature"] = "token"
    ratio: Fraction = 0.15

    @property
    def needs(self) -> tuple[str, ...]:
        return (LAYER_TOKENS,) if self.unit == "token" else (LAYER_FEATURES,)

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        if self.unit == "feature":
            keep = feature_cutoff(features[LAYER_FEATURES], self.ratio, generator)
            return {**features, LAYER_FEATURES: keep}
        is_token = features["attention_mask"].bool()
        erased = cutoff(is_token, self.ratio, span=False, generator=generator)
        keep = features[LAYER_TOKENS].masked_fill(erased, 0)
        return {**features, LAYER_TOKENS: keep}
