"""Tokens in another order: https://aclanthology.org/2021.acl-long.393,
https://aclanthology.org/2022.emnlp-main.826.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.contract.features import POSITIONS
from isotrope.tokens._inner import Features, inner, places, random_order, row_counts


def shuffle(
    values: Tensor,  # (N, L)
    among: Tensor,  # (N, L) bool
    generator: torch.Generator,
) -> Tensor:
    """Each sentence's values ``among`` in random order; the others stay -> (N, L)."""
    source = random_order(among, generator)
    shuffled = values.gather(1, source)
    return values.scatter(1, places(among), shuffled)


def reverse(
    input_ids: Tensor,  # (N, L)
    among: Tensor,  # (N, L) bool
) -> Tensor:
    """Each sentence's tokens ``among`` from the last to the first; the others stay -> (N, L)."""
    forward = places(among)
    number = torch.arange(among.shape[1], device=among.device)
    number_from_end = row_counts(among) - 1 - number  # negative behind ``among``
    source_number = torch.where(number_from_end >= 0, number_from_end, number)
    source = forward.gather(1, source_number)
    reversed_ids = input_ids.gather(1, source)
    return input_ids.scatter(1, forward, reversed_ids)


@dataclass(frozen=True)
class Shuffle:
    """A bag of (sub)words: ConSERT shuffles position ids, which is the same to the encoder. BibTeX:
    yan2021consert.
    """

    stage = "tokens"

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        ids = shuffle(features["input_ids"], inner(features), generator)
        return {**features, "input_ids": ids}


@dataclass(frozen=True)
class PositionShuffle:
    """ConSERT's code: all tokens, [CLS] too, change positions and stay in their columns. BibTeX:
    yan2021consert.
    """

    stage = "tokens"
    needs = (POSITIONS,)

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        is_token = features["attention_mask"].bool()
        positions = shuffle(features[POSITIONS], is_token, generator)
        return {**features, POSITIONS: positions}


@dataclass(frozen=True)
class Reverse:
    """The same (sub)words in the opposite order. BibTeX: wu2022pcl."""

    stage = "tokens"

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        ids = reverse(features["input_ids"], inner(features))
        return {**features, "input_ids": ids}
