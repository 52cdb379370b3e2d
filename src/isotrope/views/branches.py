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
from isotrope.contract.layers import as_new, decay_at, follow
from isotrope.types import Counts, Fraction, Views, Whole


@dataclass(eq=False, repr=False)
class Branches(StatefulComponent):
    """(V, N, D) -> (V, N, D), in training only: what a predictor says of the key, and the key.
    BibTeX: cao2022mocose.

    The projector is Linear and LayerNorm, the predictor Linear, LayerNorm, Linear and Tanh. The
    views ``slow``, and hard negatives, go through a moving average of the projector alone, as
    `isotrope.peers.moving_average`.
    """

    stage = "views"
    slow: Counts = (1,)
    decay: Fraction = 0.85
    rise: Whole = 0
    # of each LayerNorm's numbers, drawn by sentence
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        self.projector = nn.Sequential(as_new(nn.Linear(dim, dim)), nn.LayerNorm(dim))
        layers = (
            as_new(nn.Linear(dim, dim)),
            nn.LayerNorm(dim),
            as_new(nn.Linear(dim, dim)),
            nn.Tanh(),
        )
        self.predictor = nn.Sequential(*layers)
        self.average = deepcopy(self.projector).requires_grad_(False)
        self.steps: Tensor = nn.Buffer(torch.tensor(0))

    def forward(self, views: Views) -> Views:
        views.named(self.slow, "views.branches.slow")
        generator = torch.Generator().manual_seed(views.batch.generator.initial_seed())
        # draws belong to sentences
        order = views.batch.rows.argsort(stable=True).argsort(stable=True)

        def dropped(rows: Tensor) -> Tensor:
            if not self.training:
                return rows
            noise = torch.rand(rows.shape, generator=generator).to(rows.device)[order]
            return rows * (noise >= self.dropout) / (1 - self.dropout)

        stack = []
        for number, rows in enumerate(views.stack):
            if number in self.slow:
                stack.append(dropped(self.average(rows)))
            else:
                projected = dropped(self.projector(rows))
                normed = dropped(self.predictor[:2](projected))
                stack.append(self.predictor[2:](normed))
        return replace(views, stack=torch.stack(stack), negatives=self.average(views.negatives))

    def after_step(self, objective: Any) -> None:
        follow(self.average, self.projector, decay_at(int(self.steps), self.decay, self.rise))
        self.steps += 1
