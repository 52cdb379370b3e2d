"""DCLR's student as its public code runs it: without an attention mask, so that it reads its padding.

The paper (Zhou et al., ACL 2022, Sec. 3; https://aclanthology.org/2022.acl-long.423) says nothing of it. How much
padding a sentence has depends on the longest one of its batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NoMask:
    """Padding counts as tokens: the attention mask (N, L) is 1 everywhere. BibTeX: zhou2022dclr."""

    stage = "tokens"

    def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        return {**features, "attention_mask": torch.ones_like(features["attention_mask"])}
