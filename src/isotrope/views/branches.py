"""Two branches in training: MoCoSE (Cao et al., Findings of ACL 2022),
https://aclanthology.org/2022.findings-acl.248.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.draws import begun_again, ranks_of
from isotrope.contract.layers import as_new, decay_at, follow
from isotrope.types import Counts, Fraction, Views, Whole


@dataclass(eq=False, repr=False)
class Branches(StatefulComponent):
    """A predictor's output for the fast views, and a slow projection of the others, in training.

    (V, N, D) -> (V, N, D). BibTeX: cao2022mocose. The projector is Linear and LayerNorm, the
    predictor Linear, LayerNorm, Linear and Tanh. The views ``slow``, and hard negatives, go only
    through a moving average of the projector, as in `isotrope.peers.moving_average`.

    Attributes:
        slow: numbers of the views that the moving average projects.
        decay: of the moving average.
        rise: steps in which the decay rises (see `isotrope.contract.layers.decay_at`).
        dropout: of each LayerNorm's numbers, drawn by sentence.
    """

    stage = "views"
    slow: Counts = (1,)
    decay: Fraction = 0.85
    rise: Whole = 0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        self.projector = nn.Sequential(
            as_new(nn.Linear(dim, dim)),
            nn.LayerNorm(dim),
        )
        self.predictor = nn.Sequential(
            as_new(nn.Linear(dim, dim)),
            nn.LayerNorm(dim),
            as_new(nn.Linear(dim, dim)),
            nn.Tanh(),
        )
        self.average = deepcopy(self.projector)
        self.average.requires_grad_(False)
        self.steps: Tensor = nn.Buffer(torch.tensor(0))

    def forward(self, views: Views) -> Views:
        views.named(self.slow, "views.branches.slow")
        generator = begun_again(views.batch.generator)
        draw_of_row = ranks_of(views.batch.rows)  # (N,)
        first_half = self.predictor[:2]
        second_half = self.predictor[2:]

        stack = []
        for number, rows in enumerate(views.stack):
            is_slow = number in self.slow
            projector = self.average if is_slow else self.projector
            projected = self._drop(projector(rows), draw_of_row, generator)
            if is_slow:
                stack.append(projected)
                continue
            normed = self._drop(first_half(projected), draw_of_row, generator)
            predicted = second_half(normed)
            stack.append(predicted)

        negatives = self.average(views.negatives)
        return replace(views, stack=torch.stack(stack), negatives=negatives)

    def _drop(
        self,
        rows: Tensor,  # (N, D)
        draw_of_row: Tensor,  # (N,): which of the draws is each sentence's
        generator: torch.Generator,
    ) -> Tensor:
        """Dropout, in training -> (N, D)."""
        if not self.training:
            return rows
        noise = torch.rand(rows.shape, generator=generator)  # on the CPU
        noise = noise.to(rows.device)[draw_of_row]
        is_kept = noise >= self.dropout
        return rows * is_kept / (1 - self.dropout)

    def after_step(self, objective: Any) -> None:
        decay = decay_at(int(self.steps), self.decay, self.rise)
        follow(self.average, self.projector, decay)
        self.steps += 1
