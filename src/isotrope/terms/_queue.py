"""A term over lists, with a queue of a teacher's vectors in the place of the batch."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.types import Scores

QueueSize = Annotated[int, Field(ge=0)]  # 0: the batch


class ListTerm(Protocol):
    """The settings of a term over lists, and its equation."""

    @property
    def teacher(self) -> str: ...
    @property
    def queue(self) -> int: ...
    def of_lists(self, student: Tensor, teacher: Tensor) -> Tensor:
        """The student's cosines (N, K), the teacher's (N, K) -> ()."""


class OverQueue(nn.Module):
    """The lists of a batch over the K latest vectors that a teacher gave to earlier batches.

    A learnt projection, which is thrown away after training, takes the student's vector to the teacher's width. There
    it is compared with the queue, as the teacher's own vector is. The projection starts as an isometry where T >= D.
    The queue starts with random directions (as in MoCo, He et al., 2020). After each step of the optimizer, its batches
    enter.
    """

    one_view = True
    rows: Tensor  # (K, T) unit rows, the newest first

    def __init__(self, term: ListTerm, context: BuildContext) -> None:
        super().__init__()
        width = context.teacher_width(term.teacher)
        self.term = term
        self.projection = projection(context.needed("width"), width)
        self.register_buffer("rows", F.normalize(torch.randn(term.queue, width), dim=-1))
        self.latest = self.rows[:0]  # of the batches since the last step

    def forward(self, scores: Scores) -> Tensor:
        taught = scores.views.teachers[self.term.teacher].to(self.rows)  # (N, T)
        self.latest = torch.cat([taught, self.latest.to(taught)])[: len(self.rows)]
        student = F.normalize(projected(self.projection, scores), dim=-1)  # (N, T)
        return self.term.of_lists(student @ self.rows.T, taught @ self.rows.T)

    def after_step(self, objective: Any) -> None:
        """The batches of the step enter, the oldest leave."""
        self.rows = torch.cat([self.latest, self.rows])[: len(self.rows)]
        self.latest = self.rows[:0]


def projection(width: int, teacher_width: int) -> nn.Linear:
    """A learnt map from the student's width to the teacher's, which starts with orthonormal rows or columns.

    Of equal widths it starts as the identity: a student made of its teacher's layers has its directions already.
    """
    made = nn.Linear(width, teacher_width, bias=False)
    (nn.init.eye_ if width == teacher_width else nn.init.orthogonal_)(made.weight)
    return made


def projected(made: nn.Linear, scores: Scores) -> Tensor:
    """The anchors at unit length through the projection: (N, T)."""
    return made(F.normalize(scores.views.stack[0].to(made.weight), dim=-1))  # type: ignore[no-any-return]
