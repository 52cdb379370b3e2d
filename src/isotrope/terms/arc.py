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
    square = 1 - cosine.square()  # sin² θ
    has_root = square > 0
    safe_square = square.where(has_root, 1.0)
    sine = safe_square.sqrt().where(has_root, 0.0)

    # cos(θ + m) = cos θ cos m − sin θ sin m
    along = cosine * math.cos(margin)
    across = sine * math.sin(margin)
    return along - across


def arc(
    cosines: Tensor,  # (N, M) or (P, N, M), M >= N
    temperature: float,
    margin: float,  # m, in radians
    keep: Tensor | None = None,  # (N, M) as in `infonce`
) -> Tensor:
    """-log e^{cos(θ_ii + m)/τ} / (e^{cos(θ_ii + m)/τ} + Σ_{j≠i} e^{cos θ_ij/τ}), mean over anchors
    i, summed over positives -> ().
    """
    is_positive = on_diagonal(cosines)
    with_margins = with_margin(cosines, margin)
    cosines = torch.where(is_positive, with_margins, cosines)
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
        loss = arc(scores.cosines, self.temperature, self.margin, scores.keep)
        return self.weight * loss
