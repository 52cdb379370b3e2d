"""Distillation of the vectors themselves: EmbedDistill (Kim et al., 2023, Eqs. 7 and 8), arXiv 2301.12005.

https://arxiv.org/abs/2301.12005. Here the student's vector has unit length before it is projected.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import BuildContext, WithState
from isotrope.terms._queue import Projection
from isotrope.types import NonNegative, Scores

Distance = Literal["cosine", "l2"]


def vector_match(student: Tensor, teacher: Tensor, measure: Distance) -> Tensor:
    """Mean distance of the sentences' vectors: (N, T), (N, T) -> (). "cosine": 1 − cos(s, t); "l2": ‖s − t‖."""
    if measure == "cosine":
        distances = 1 - F.cosine_similarity(student, teacher, dim=-1)
    else:
        distances = torch.linalg.vector_norm(student - teacher, dim=-1)
    return distances.mean()


@dataclass(eq=False, repr=False)
class VectorMatch(WithState):
    """The student's vector, projected or as it is, is its teacher's, which is fixed. BibTeX: kim2023embeddistill."""

    stage = "terms"
    one_view = True
    teacher: str
    measure: Distance = "cosine"
    projected: bool = True  # False: the student's own vector, for a student that shall search its teacher's documents
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        if self.projected:
            self.projection = Projection(context, self.teacher)

    def forward(self, scores: Scores) -> Tensor:
        student = self.projection(scores) if self.projected else F.normalize(scores.views.stack[0], dim=-1)  # (N, T)
        return self.weight * vector_match(student, scores.views.teachers[self.teacher].to(student), self.measure)
