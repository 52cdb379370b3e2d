"""EmbedDistill: distillation of the vectors (Kim et al., 2023, Eqs. 7 and 8).
https://arxiv.org/abs/2301.12005
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.errors import check_known
from isotrope.terms._queue import Projection
from isotrope.types import NonNegative, Scores

Distance = Literal["cosine", "l2"]


def vector_match(
    student: Tensor,  # s (N, T)
    teacher: Tensor,  # t (N, T)
    measure: Distance,
) -> Tensor:
    """Mean distance of the sentences' vectors -> (). "cosine": 1 − cos(s, t); "l2": ‖s − t‖."""
    if measure == "cosine":
        distances = 1 - F.cosine_similarity(student, teacher, dim=-1)
    else:
        distances = torch.linalg.vector_norm(student - teacher, dim=-1)
    return distances.mean()


@dataclass(eq=False, repr=False)
class VectorMatch(StatefulComponent):
    """The student's vector, projected, is its teacher's, which has a fixed width. BibTeX:
    kim2023embeddistill.

    Here it has unit length before it is projected. Not ``projected``, the student's own vectors
    become its teacher's, so that one may search among those of the other; with "l2" this is LEAF's
    loss, https://arxiv.org/abs/2509.12539.
    """

    stage = "terms"
    one_view = True
    teacher: str
    measure: Distance = "cosine"
    projected: bool = True
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        self.projection = Projection(context, self.teacher) if self.projected else None
        if not self.projected:
            width = str(context.needed("width"))
            teacher_width = str(context.teacher_width(self.teacher))
            check_known(
                "vector_match: without a projection, the student's width", width, [teacher_width]
            )

    def forward(self, scores: Scores) -> Tensor:
        if self.projection is None:
            anchor = scores.views.stack[0].float()
            student = F.normalize(anchor, dim=-1)  # (N, D)
        else:
            student = self.projection(scores)  # (N, T)
        teacher = scores.views.teachers[self.teacher].to(student)
        loss = vector_match(student, teacher, self.measure)
        return self.weight * loss
