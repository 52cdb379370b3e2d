"""Tokens in another order: https://aclanthology.org/2021.acl-long.393,
https://aclanthology.org/2022.emnlp-main.826.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.contract.features import POSITIONS
from isotrope.tokens._inner import inner, places, random_order, row_counts


def shuffle(values: Tensor, among: Tensor, generator: torch.Generator) -> Tensor:
    """Each sentence's values ``among`` (N, L) bool in random order; the others stay. (N, L) -> (N,
    L).
    """
    source = random_order(among, generator)
    shuffled = values.gather(1, source)
    return values.scatter(1, places(among), shuffled)


def reverse(input_ids: Tensor, among: Tensor) -> Tensor:
    """Each sentence's tokens ``among`` (N, L) bool from the last to the first; the others stay. (N,
    L) -> (N, L).
    """
    order = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    back = row_counts(among) - 1 - order  # negative behind the inner ones
    forward = places(among)
    source_order = torch.where(back >= 0, back, order)
    source = forward.gather(1, source_order)
    reversed_ids = input_ids.gather(1, source)
    return input_ids.scatter(1, forward, reversed_ids)


@dataclass(frozen=True)
class Shuffle:
    """A bag of (sub)words: ConSERT shuffles position ids, which is the same to the encoder. BibTeX:
    yan2021consert.
    """

    stage = "tokens"

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        ids = shuffle(features["input_ids"], inner(features), generator)
        return {**features, "input_ids": ids}


@dataclass(frozen=True)
class PositionShuffle:
    """ConSERT's code: all tokens, [CLS] too, change positions and stay in their columns. BibTeX:
    yan2021consert.
    """

    stage = "tokens"
    needs = (POSITIONS,)

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        is_token = features["attention_mask"].bool()
        positions = shuffle(features[POSITIONS], is_token, generator)
        return {**features, POSITIONS: positions}


@dataclass(frozen=True)
class Reverse:
    """The same (sub)words in the opposite order. BibTeX: wu2022pcl."""

    stage = "tokens"

    def __call__(
        self, features: dict[str, Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        ids = reverse(features["input_ids"], inner(features))
        return {**features, "input_ids": ids}
