"""Two views in their order of nearness to the anchor, by hinges on the difference of two cosines.

ArcCSE's triplets: https://aclanthology.org/2022.acl-long.336. SNCSE's soft negatives:
https://arxiv.org/abs/2201.05979.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from isotrope.errors import UserError
from isotrope.types import Count, NonNegative, Scores, Whole


def difference(
    anchor: Tensor,  # a (N, D)
    near: Tensor,  # (N, D)
    far: Tensor,  # (N, D)
) -> Tensor:
    """Δ_i = cos(a_i, far_i) − cos(a_i, near_i) -> (N,)."""
    to_far = F.cosine_similarity(anchor, far, dim=-1)
    to_near = F.cosine_similarity(anchor, near, dim=-1)
    return to_far - to_near


def triplet(anchor: Tensor, near: Tensor, far: Tensor, margin: float = 0.0) -> Tensor:
    """max(0, Δ_i + m), mean over sentences i; Δ is their `difference`. (N, D) each -> ()."""
    gap = difference(anchor, near, far)
    losses = (gap + margin).clamp(min=0)  # (N,)
    return losses.mean()


def margin_band(
    anchor: Tensor, positive: Tensor, soft: Tensor, least: float, most: float
) -> Tensor:
    """max(0, Δ_i + α) + max(0, −Δ_i − β), α = ``least``, β = ``most``, mean over sentences i. (N,
    D) each -> ().

    Δ is the `difference` of soft negative and positive. The loss is 0 where −β ≤ Δ ≤ −α.
    """
    gap = difference(anchor, positive, soft)
    too_near = (gap + least).clamp(min=0)
    too_far = (-gap - most).clamp(min=0)
    return (too_near + too_far).mean()


@dataclass(frozen=True)
class Triplet:
    """A copy that lacks less is nearer than one that lacks more. BibTeX: zhang2022arccse."""

    stage = "terms"
    near: Count = 1  # the view that is to be nearer, counted as the passes: 0 is the anchor
    far: Count = 2  # the view that is to be further away
    margin: NonNegative = 0.0  # by how much, as a cosine
    weight: NonNegative = 0.1

    def __call__(self, scores: Scores) -> Tensor:
        anchor, near, far = scores.views.named(
            [0, self.near, self.far], "the views of terms.triplet"
        )
        loss = triplet(anchor, near, far, self.margin)
        return self.weight * loss


@dataclass(frozen=True)
class MarginBand:
    """A soft negative is less alike than the positive, view 1, by a margin with two ends. BibTeX:
    wang2023sncse.
    """

    stage = "terms"
    # the soft negative, counted as the passes; 0: the first column of negatives in the data
    view: Whole = 2
    least: NonNegative = 0.1  # by how much it is less alike, as a cosine
    most: NonNegative = 0.3  # by how much at most
    weight: NonNegative = 1e-3

    @property
    def reads_negatives(self) -> bool:
        return self.view == 0

    def __call__(self, scores: Scores) -> Tensor:
        views = scores.views
        has_negatives = views.negatives.shape[1] > 0
        if self.reads_negatives and not has_negatives:
            problem = "terms.margin_band.view = 0, and the data has no negatives"
            raise UserError(problem, "give --negative COLUMN", code="no-negatives")
        anchor, positive, soft = views.named([0, 1, self.view], "the views of terms.margin_band")
        if self.reads_negatives:
            soft = views.negatives[:, 0].to(anchor)
        loss = margin_band(anchor, positive, soft, self.least, self.most)
        return self.weight * loss
