"""Subwords that are said twice, left out or put in: those behind them move.

ESimCSE: https://aclanthology.org/2022.coling-1.342. TSDAE: https://arxiv.org/abs/2104.06979, Sec.
3. PCL's public code: https://aclanthology.org/2022.emnlp-main.826.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from isotrope.tokens._inner import (
    Features,
    chosen,
    copies,
    inner,
    places,
    random_below,
    row_counts,
    share,
    uniform,
)
from isotrope.types import Count, Fraction


def repeats(
    among: Tensor,  # (N, L) bool
    ratio: float,
    room: Tensor,  # (N, 1): by how much a sentence may become longer
    generator: torch.Generator,
) -> Tensor:
    """Draw which of the n tokens ``among`` are said twice -> (N, L) bool.

    Their number is 0 to max(2, ⌊ratio·n⌋), all numbers as likely. Where there is less ``room``, the
    numbers end there.
    """
    limit = share(ratio, among).clamp(min=2)  # (N, 1)
    limit = limit.minimum(room).clamp(min=0)
    possible_counts = limit + 1
    count = random_below(possible_counts, generator)
    return chosen(among, count, generator)


def deleted(
    among: Tensor,  # (N, L) bool
    ratio: float,
    generator: torch.Generator,
) -> Tensor:
    """Draw which tokens ``among`` are deleted, each with probability ``ratio``, but never all ->
    (N, L) bool.
    """
    noise = uniform(among, generator)
    noise = noise.masked_fill(~among, -1.0)
    largest = noise.amax(dim=1, keepdim=True)  # its token stays
    limit = largest.clamp(max=ratio)
    return among & (noise < limit)


@dataclass(frozen=True)
class Repeat:
    """Changes a sentence's length, not its meaning; the batch may become wider. BibTeX:
    wu2022esimcse.
    """

    stage = "tokens"
    ratio: Fraction = 0.32
    # sentences do not grow beyond it: encoders have so many positions
    max_length: Annotated[int, Field(ge=3)] = 512
    most: Count = 512  # nor by more than this

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        mask = features["attention_mask"]
        room = self.max_length - row_counts(mask)
        room = room.clamp(max=self.most)
        among = inner(features)
        is_repeated = repeats(among, self.ratio, room, generator)
        return copies(features, mask + is_repeated)


@dataclass(frozen=True)
class Delete:
    """A sentence loses some of its tokens; the others move together. BibTeX: wang2021tsdae."""

    stage = "tokens"
    ratio: Fraction = 0.6
    exact: bool = False  # it loses round(ratio·n) of its n tokens, but never all, as in PCL's code

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        gone = self._gone(inner(features), generator)
        times = features["attention_mask"].masked_fill(gone, 0)
        return copies(features, times)

    def _gone(self, among: Tensor, generator: torch.Generator) -> Tensor:
        if not self.exact:
            return deleted(among, self.ratio, generator)
        all_but_one = row_counts(among) - 1
        count = share(self.ratio, among, round)
        count = count.minimum(all_but_one)
        return chosen(among, count, generator)


@dataclass(frozen=True)
class Insert:
    """round(``ratio``·n) more of a sentence's n tokens, at any places, up to ``max_length``.
    BibTeX: wu2022pcl.
    """

    stage = "tokens"
    ratio: Fraction = 0.2
    max_length: Count = 32

    def __call__(self, features: Features, generator: torch.Generator) -> Features:
        among = inner(features)
        mask = features["attention_mask"]
        room = self.max_length - row_counts(mask)
        count = share(self.ratio, among, round)
        count = count.minimum(room).clamp(min=0)

        # Make room: the first tokens twice, whose places get other tokens below.
        in_first = among.cumsum(dim=1) <= count
        times = mask + (among & in_first)
        grown = copies(features, times)
        inner_places = inner(grown)
        is_new = chosen(inner_places, count, generator)

        # New places get random tokens of the text, the others its tokens in their order.
        noise = uniform(is_new, generator)
        random_number = (noise * row_counts(among)).long()
        is_old = inner_places & ~is_new
        own_number = is_old.cumsum(dim=1) - 1
        number = torch.where(is_new, random_number, own_number).clamp(min=0)
        source = places(among).gather(1, number)
        tokens = features["input_ids"].gather(1, source)
        ids = torch.where(inner_places, tokens, grown["input_ids"])
        return {**grown, "input_ids": ids}
