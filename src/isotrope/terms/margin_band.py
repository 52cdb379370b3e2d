"""A soft negative is less alike than the positive, by a margin that has a lower and an upper end (SNCSE).

Wang and Dou, ICIC 2023, Eqs. 4–5. https://arxiv.org/abs/2201.05979
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from isotrope.errors import UserError
from isotrope.types import NonNegative, Scores, Whole


def margin_band(
    anchor: Tensor,  # (N, D)
    positive: Tensor,  # (N, D)
    soft: Tensor,  # (N, D) soft negatives
    least: float,
    most: float,
) -> Tensor:
    """max(0, Δ_i + α) + max(0, −Δ_i − β), Δ_i = cos(a_i, soft_i) − cos(a_i, p_i), mean over sentences i -> ().

    α is ``least``, β is ``most``. It is 0 where −β ≤ Δ ≤ −α.
    """
    alike = [F.cosine_similarity(anchor, other, dim=-1) for other in (positive, soft)]  # (N,) each
    difference = alike[1] - alike[0]
    return ((difference + least).clamp(min=0) + (-difference - most).clamp(min=0)).mean()


@dataclass(frozen=True)
class MarginBand:
    """The positive is view 1. BibTeX: wang2023sncse.

    Args:
        view: of the soft negative, counted as the passes. 0: the first column of negatives that came with the data.
        least: by how much the soft negative is less alike, as a cosine.
        most: by how much at most.
    """

    stage = "terms"
    view: Whole = 2
    least: NonNegative = 0.1
    most: NonNegative = 0.3
    weight: NonNegative = 1e-3

    @property
    def reads_negatives(self) -> bool:
        return self.view == 0

    def __call__(self, scores: Scores) -> Tensor:
        views = scores.views
        if not self.view and not views.negatives.shape[1]:
            raise UserError("terms.margin_band.view = 0, and the data has no negatives", "give --negative COLUMN")
        anchor, positive, soft = views.named([0, 1, self.view], "the views of terms.margin_band")
        soft = soft if self.view else views.negatives[:, 0].to(anchor)
        return self.weight * margin_band(anchor, positive, soft, self.least, self.most)
