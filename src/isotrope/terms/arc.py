"""ArcCSE: a margin on the angle of two views (Zhang et al., ACL 2022).
https://aclanthology.org/2022.acl-long.336
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.terms.infonce import infonce
from isotrope.types import AboveZero, NonNegative, Scores


def with_margin(cosine: Tensor, margin: float) -> Tensor:
    """cos(θ + ``margin``) of cosines cos θ, any shape; finite gradients also at cos θ = ±1, where
    sin θ has none.
    """
    cosine = cosine.clamp(-1, 1)  # rounding may go beyond
    square = 1 - cosine.square()
    sine = torch.where(square > 0, square.where(square > 0, 1.0).sqrt(), 0.0)
    return cosine * math.cos(margin) - sine * math.sin(margin)


def arc(cosines: Tensor, temperature: float, margin: float, keep: Tensor | None = None) -> Tensor:
    """-log e^{cos(θ_ii + m)/τ} / (e^{cos(θ_ii + m)/τ} + Σ_{j≠i} e^{cos θ_ij/τ}), mean over anchors
    i -> ().

    Summed over positives. cosines (N, M) or (P, N, M), M >= N, and keep (N, M) as in `infonce`; m
    in radians.
    """
    positives = with_margin(cosines, margin)
    cosines = torch.where(on_diagonal(cosines), positives, cosines)
    return infonce(cosines, temperature, keep)


@dataclass(frozen=True)
class Arc:
    """InfoNCE, where a positive must be nearer than the negatives by an angle. BibTeX:
    zhang2022arccse.
    """

    stage = "terms"
    temperature: AboveZero = 0.05
    margin: Annotated[float, Field(ge=0, le=math.pi / 2)] = 0.1745  # radians; 10 degrees
    weight: NonNegative = 1.0

    def __call__(self, scores: Scores) -> Tensor:
        return self.weight * arc(scores.cosines, self.temperature, self.margin, scores.keep)
