"""Copies of the student that read some passes in its place: one that follows it, and one that is
trained beside it.

Momentum contrast in ESimCSE, https://aclanthology.org/2022.coling-1.342, Sec. 3.2, and in MoCoSE,
https://aclanthology.org/2022.findings-acl.248; Contrastive Tension,
https://openreview.net/forum?id=Ov_sMNau-PF.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged
from isotrope.contract.features import TextColumn, read_in_parts
from isotrope.contract.layers import decay_at, follow
from isotrope.types import Fraction, Whole


class Trained(StatefulComponent):
    """Token ids (N, L) -> (N, D), with weights of its own. BibTeX: carlsson2021tension.

    It is trained and saved with the objective. The model that the run gives is the student.
    """

    stage = "peers"

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        self.encoder = deepcopy(student).train()  # dropout included
        averaged(self.encoder)

    def forward(self, features: TextColumn, size: int | None = None) -> Tensor:
        """``size`` rows at a time; None: all."""
        (embeddings,) = read_in_parts(self.encoder, features, size)
        return embeddings


@dataclass(eq=False, repr=False)
class MovingAverage(StatefulComponent):
    """Token ids (N, L) -> (N, D) without gradient. It follows the student after each step. BibTeX:
    wu2022esimcse.
    """

    stage = "peers"
    decay: Fraction = 0.995  # the part of the average that stays in each step
    rise: Whole = 0  # steps within which ``decay`` rises to 1; 0: it stays
    dropout: bool = False  # as the student has

    def begin(self, context: BuildContext) -> None:
        self.steps: Tensor = nn.Buffer(torch.tensor(0))
        student = context.needed("student")
        self.encoder = deepcopy(student).requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and self.dropout)

    @torch.no_grad()
    def forward(self, features: TextColumn, size: int | None = None) -> Tensor:
        """``size`` rows at a time; None: all."""
        (embeddings,) = read_in_parts(self.encoder, features, size)
        return embeddings

    def after_step(self, objective: Any) -> None:
        decay = decay_at(int(self.steps), self.decay, self.rise)
        follow(self.encoder, objective.model, decay)
        self.steps += 1
