"""Token shuffling as ConSERT's code has it: the positions of all tokens, [CLS] and [SEP] among them.

ConSERT: Yan et al., ACL 2021, Sec. 3.2, https://aclanthology.org/2021.acl-long.393; DCLR Sec. 6.1. ``shuffle`` leaves
[CLS] and [SEP] in their places.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.contract.features import POSITIONS
from isotrope.tokens._inner import places, random_order


@dataclass(frozen=True)
class PositionShuffle:
    """Each sentence's positions (N, L) in random order; its tokens stay in their columns. BibTeX: yan2021consert.

    So a pooling that takes the first token still takes [CLS], whose position may now be any.
    """

    stage = "tokens"
    needs = (POSITIONS,)

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        real, positions = features["attention_mask"].bool(), features[POSITIONS]
        moved = positions.scatter(1, places(real), positions.gather(1, random_order(real, generator)))
        return {**features, POSITIONS: moved}
