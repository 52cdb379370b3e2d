"""Token shuffling (ConSERT: Yan et al., ACL 2021, Sec. 3.2; DCLR Sec. 6.1). https://aclanthology.org/2021.acl-long.393."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.tokens._inner import inner, places, random_order


def shuffle(input_ids: Tensor, among: Tensor, generator: torch.Generator) -> Tensor:
    """Each sentence's tokens ``among`` (N, L) bool in random order; the others stay. (N, L) -> (N, L)."""
    return input_ids.scatter(1, places(among), input_ids.gather(1, random_order(among, generator)))


@dataclass(frozen=True)
class Shuffle:
    """A bag of (sub)words: ConSERT shuffles position ids, which is the same to the encoder. BibTeX: yan2021consert."""

    stage = "tokens"

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        return {**features, "input_ids": shuffle(features["input_ids"], inner(features), generator)}
