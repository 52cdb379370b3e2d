"""A moving average of the student reads some passes: the slow encoder of momentum contrast.

ESimCSE: Wu et al., COLING 2022, Sec. 3.2, https://aclanthology.org/2022.coling-1.342; MoCoSE: Cao et al., Findings of
ACL 2022, https://aclanthology.org/2022.findings-acl.248.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, WithState
from isotrope.contract.features import read_in_parts
from isotrope.contract.layers import decay_at, follow
from isotrope.types import Fraction, Whole


@dataclass(eq=False, repr=False)
class MovingAverage(WithState):
    """Token ids (N, L) -> (N, D) without gradient. It follows the student after each step. BibTeX: wu2022esimcse.

    Args:
        decay: the part of the average that stays in each step.
        rise: steps within which ``decay`` rises to 1; 0: it stays.
        dropout: whether the average has dropout as the student has.
    """

    stage = "peers"
    decay: Fraction = 0.995
    rise: Whole = 0
    dropout: bool = False

    def begin(self, context: BuildContext) -> None:
        self.steps: Tensor = nn.Buffer(torch.tensor(0))
        self.encoder = deepcopy(context.needed("student")).requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and self.dropout)

    @torch.no_grad()
    def forward(self, features: dict[str, Any], size: int | None = None) -> Tensor:
        """``size`` rows at a time; None: all."""
        return read_in_parts(self.encoder, features, size)[0]

    def after_step(self, objective: Any) -> None:
        follow(self.encoder, objective.model, decay_at(int(self.steps), self.decay, self.rise))
        self.steps += 1
