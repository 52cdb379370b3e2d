"""False negatives leave the denominator (DCLR Eq. 5: Zhou et al., 2022).
https://aclanthology.org/2022.acl-long.423
"""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.contract.diagonal import on_diagonal
from isotrope.errors import UserError
from isotrope.types import Scores


def instance_weight(teacher: Tensor, threshold: float) -> Tensor:
    """Eq. 5: 0 where the teacher's cosine reaches the threshold, else 1; 1 on the diagonal. (N, M)
    -> (N, M).
    """
    is_different = teacher < threshold
    stays = is_different | on_diagonal(teacher)
    return stays.to(teacher)


def relative_to_mean(teacher: Tensor) -> Tensor:
    """Cosines (N, M ≥ N) on a scale where 0 is the mean of two different sentences of the batch,
    and 1 stays 1.
    """
    count = len(teacher)
    pairs = teacher[:, :count]  # (N, N)
    total = pairs.sum() - pairs.diagonal().sum()
    pair_count = count * (count - 1)
    mean = total / max(1, pair_count)
    span = (1 - mean).clamp(min=1e-6)  # a collapsed teacher: mean 1
    return (teacher - mean) / span


@dataclass(frozen=True)
class InstanceWeight:
    """Candidates that the teacher finds too similar to the anchor are no negatives. BibTeX:
    zhou2022dclr.

    Since a teacher gives a sentence and its positive one embedding, a margin below the positive's
    own similarity (as in GISTEmbed) is ``threshold`` = 1 - margin. Steps that come later add
    candidates that are not weighted.

    The teacher ``self`` is the student, by its own cosines without gradient, mean over the
    positives (Table 2's self instance weighting). ``noise`` weights the extra candidates too, as
    the paper does and its code does not. They are points in the student's space, so the teacher
    must have as many dimensions. ``relative`` is for models and domains where two sentences have a
    cosine of 0.8, or of 0.1: an absolute φ would remove all negatives, or none.
    """

    stage = "scores"
    teacher: str
    threshold: Annotated[float, Field(allow_inf_nan=False)] = 0.9  # φ; above 1 nothing is removed
    noise: bool = False
    relative: bool = False  # measure φ from the batch's mean cosine (0) to equality (1)

    def __call__(self, scores: Scores) -> Scores:
        keep = scores.keep * self.weights(scores)
        return replace(scores, keep=keep)

    def weights(self, scores: Scores) -> Tensor:
        """(N, N + K): 0 for a false negative, else 1."""
        similarity = self._similarity(scores)  # (N, N) or (N, N + K)
        if self.relative:
            similarity = relative_to_mean(similarity)
        alpha = instance_weight(similarity, self.threshold)
        weights = torch.ones_like(scores.keep)
        weights[:, : alpha.shape[1]] = alpha
        return weights

    def _similarity(self, scores: Scores) -> Tensor:
        if self.teacher == "self":
            cosines = scores.cosines.detach().mean(dim=0)  # (N, N + K)
            return cosines if self.noise else cosines[:, : len(cosines)]
        if not self.noise:
            return scores.teacher(self.teacher)
        rows = scores.views.teachers[self.teacher]  # (N, T)
        extra = F.normalize(scores.extra, dim=-1)  # (K, D)
        if rows.shape[1] != extra.shape[1]:
            problem = (
                f"noise = true: teacher {self.teacher!r} has {rows.shape[1]} dimensions,"
                f" the student {extra.shape[1]}"
            )
            remedy = "set noise = false, or take one teacher of the student's size"
            raise UserError(problem, remedy, code="another-width")
        to_extra = rows @ extra.to(rows).T  # (N, K)
        return torch.cat([scores.teacher(self.teacher), to_extra], dim=1)
