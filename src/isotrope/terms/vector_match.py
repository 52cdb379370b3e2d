"""Distillation of the vectors themselves: EmbedDistill (Kim et al., 2023, Eqs. 7 and 8), arXiv 2301.12005.

https://arxiv.org/abs/2301.12005. Here the student's vector has unit length before it is projected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.terms._queue import projected, projection
from isotrope.types import NonNegative, Scores

Distance = Literal["cosine", "l2"]


def vector_match(student: Tensor, teacher: Tensor, measure: Distance) -> Tensor:
    """Mean distance of the sentences' vectors: (N, T), (N, T) -> (). "cosine": 1 − cos(s, t); "l2": ‖s − t‖."""
    if measure == "cosine":
        distances = 1 - F.cosine_similarity(student, teacher, dim=-1)
    else:
        distances = torch.linalg.vector_norm(student - teacher, dim=-1)
    return distances.mean()


@dataclass(frozen=True)
class VectorMatch:
    """The student's vector, through a learnt projection, is its teacher's. BibTeX: kim2023embeddistill.

    The projection D -> T is thrown away after training.

    Attributes:
        teacher: whose vectors are followed. They must have a fixed width.
        measure: of the distance.
    """

    stage = "terms"
    one_view = True
    teacher: str
    measure: Distance = "cosine"
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its projection."""
        return _Matching(self, context)


class _Matching(nn.Module):
    one_view = True

    def __init__(self, term: VectorMatch, context: BuildContext) -> None:
        super().__init__()
        self.term = term
        self.projection = projection(context.needed("width"), context.teacher_width(term.teacher))

    def forward(self, scores: Scores) -> Tensor:
        student = projected(self.projection, scores)  # (N, T)
        teacher = scores.views.teachers[self.term.teacher].to(student)
        return self.term.weight * vector_match(student, teacher, self.term.measure)
