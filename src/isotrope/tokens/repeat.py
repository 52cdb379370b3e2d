"""Word repetition (ESimCSE: Wu et al., COLING 2022, Sec. 3.1), of subwords. https://aclanthology.org/2022.coling-1.342."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from isotrope.tokens._inner import copies, inner, random_order
from isotrope.types import Fraction


def repeats(among: Tensor, ratio: float, room: Tensor, generator: torch.Generator) -> Tensor:
    """Which of the n tokens ``among`` are said twice: 0 to max(2, ⌊ratio·n⌋), all numbers as likely. (N, L) bool.

    No sentence becomes longer by more than its ``room`` (N, 1).
    """
    most = (ratio * among.sum(dim=1, keepdim=True)).long().clamp(min=2)  # (N, 1)
    count = (torch.rand(len(among), 1, generator=generator).to(among.device) * (most + 1)).long()
    return among & (random_order(among, generator).argsort(dim=1) < count.minimum(room))


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
