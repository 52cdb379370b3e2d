"""Terms over the lists of a batch, or of a queue of a teacher's vectors in its place."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.diagonal import on_diagonal
from isotrope.types import Scores


class Projection(nn.Linear):
    """A learnt map of the anchors at unit length (N, D) to the teacher's width, (N, T). It is
    thrown away.

    It starts with orthonormal rows or columns; of equal widths as the identity, for a student of
    its teacher's layers.
    """

    def __init__(self, context: BuildContext, teacher: str) -> None:
        width = context.needed("width")
        teacher_width = context.teacher_width(teacher)
        super().__init__(width, teacher_width, bias=False)
        if self.in_features == self.out_features:
            nn.init.eye_(self.weight)
        else:
            nn.init.orthogonal_(self.weight)

    def forward(self, scores: Scores) -> Tensor:  # type: ignore[override]
        anchor = scores.views.stack[0].to(self.weight)
        unit = F.normalize(anchor, dim=-1)
        return super().forward(unit)


def without_positive(lists: Tensor) -> Tensor:
    """(…, N, N) -> (…, N, N - 1): each list without its diagonal element, the positive; the others
    in their order.
    """
    count = lists.shape[-1]
    is_negative = ~on_diagonal(lists)
    negatives = lists[..., is_negative]  # (…, N · (N - 1))
    return negatives.reshape(*lists.shape[:-1], count - 1)


class ListTerm:
    """A term over the lists of a batch, or of a queue: `of_lists` of cosines (N, K) of student and
    teacher -> ().
    """

    stage = "terms"
    one_view = True
    teacher: str
    queue: int
    drop_positive = False  # in a queue there is none

    def build(self, context: BuildContext) -> Any:
        if self.queue:
            return OverQueue(self, context)
        return self

    def __call__(self, scores: Scores) -> Tensor:
        student = scores.pairs
        teacher = scores.teacher(self.teacher)
        if self.drop_positive:
            student = without_positive(student)
            teacher = without_positive(teacher)
        return self.of_lists(student, teacher)

    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        raise NotImplementedError


class OverQueue(nn.Module):
    """The lists of a batch over the K latest vectors that a teacher gave to earlier batches.

    The student's vector is compared with the queue behind a `Projection`, as the teacher's own
    vector is. The queue starts with random directions (as in MoCo, He et al., 2020). After each
    step of the optimizer, its batches enter.
    """

    one_view = True

    def __init__(self, term: ListTerm, context: BuildContext) -> None:
        super().__init__()
        self.term = term
        self.projection = Projection(context, term.teacher)
        directions = torch.randn(term.queue, self.projection.out_features)
        directions = F.normalize(directions, dim=-1)
        self.rows: Tensor = nn.Buffer(directions)  # (K, T) unit rows, the newest first
        self.latest = self.rows[:0]  # of the batches since the last step

    def forward(self, scores: Scores) -> Tensor:
        teacher = scores.views.teachers[self.term.teacher]
        teacher = teacher.to(self.rows)  # (N, T)
        student = F.normalize(self.projection(scores), dim=-1)  # (N, T)
        student_lists = student @ self.rows.T  # (N, K)
        teacher_lists = teacher @ self.rows.T  # (N, K)

        self.latest = self._newest(teacher, self.latest.to(teacher))
        return self.term.of_lists(student_lists, teacher_lists)

    def after_step(self, objective: Any) -> None:
        self.rows = self._newest(self.latest, self.rows)
        self.latest = self.rows[:0]

    def _newest(self, new: Tensor, old: Tensor) -> Tensor:
        """At most K rows of both, the new ones first."""
        capacity = len(self.rows)
        rows = torch.cat([new, old])
        return rows[:capacity]
