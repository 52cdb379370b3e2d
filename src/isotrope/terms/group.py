"""Peer-positive contrast: all positives of a sentence share one softmax (PCL: Wu et al., EMNLP 2022, Sec. 3).

https://aclanthology.org/2022.emnlp-main.826
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.terms._lists import group_list
from isotrope.terms.infonce import infonce
from isotrope.types import AboveZero, NonNegative, Scores


def group_contrast(stack: Tensor, temperature: float) -> Tensor:
    """−log q_ir, mean over sentences i and positives r -> ().

    stack (V, N, D): anchors a, then P positives p. q_ir = e^{cos(a_i, p_ri)/τ} / (Σ_r e^{cos(a_i, p_ri)/τ} +
    Σ_{j≠i} e^{cos(a_i, a_j)/τ}).
    """
    return -group_list(stack[0], stack[1:], stack[0], temperature)[:, : len(stack) - 1].mean()


@dataclass(frozen=True)
class Group:
    """The group's contrast, and InfoNCE of its first two views. BibTeX: wu2022pcl.

    Args:
        views: the anchor, a second copy, then the changed copies, counted as the passes.
    """

    stage = "terms"
    views: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)] = (0, 1)
    temperature: AboveZero = 0.05
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        stack = scores.views.named(self.views, "terms.group.views").to(scores.cosines)  # float32 or better
        first, second = (F.normalize(each, dim=-1) for each in stack[:2])
        return self.weight * (infonce(first @ second.T, self.temperature) + group_contrast(stack, self.temperature))
