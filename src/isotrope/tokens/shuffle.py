"""Token shuffling (ConSERT: Yan et al., ACL 2021, Sec. 3.2; DCLR Sec. 6.1). https://aclanthology.org/2021.acl-long.393."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.tokens._inner import frame, inner, places, random_order


def shuffle(input_ids: Tensor, attention_mask: Tensor, generator: torch.Generator, first: int = 1) -> Tensor:
    """Each sentence's tokens in random order; [CLS], [SEP] and padding keep their places. (N, L) -> (N, L)."""
    among = inner(attention_mask, first)
    return input_ids.scatter(1, places(among), input_ids.gather(1, random_order(among, generator)))


@dataclass(frozen=True)
class Shuffle:
    """A bag of (sub)words: ConSERT shuffles position ids, which is the same to the encoder. BibTeX: yan2021consert."""

    stage = "tokens"

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        ids = shuffle(features["input_ids"], features["attention_mask"], generator, frame(features))
        return {**features, "input_ids": ids}
