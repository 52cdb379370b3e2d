"""A sentence from its end to its beginning (PCL: Wu et al., EMNLP 2022, Sec. 3).

https://aclanthology.org/2022.emnlp-main.826
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.tokens._inner import inner, places


def reverse(input_ids: Tensor, among: Tensor) -> Tensor:
    """Each sentence's tokens ``among`` (N, L) bool from the last to the first; the others stay. (N, L) -> (N, L)."""
    order = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    back = among.sum(dim=1, keepdim=True) - 1 - order  # negative behind the inner ones
    forward = places(among)
    turned = forward.gather(1, torch.where(back >= 0, back, order))
    return input_ids.scatter(1, forward, input_ids.gather(1, turned))


@dataclass(frozen=True)
class Reverse:
    """The same (sub)words in the opposite order. BibTeX: wu2022pcl."""

    stage = "tokens"

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        return {**features, "input_ids": reverse(features["input_ids"], inner(features))}
