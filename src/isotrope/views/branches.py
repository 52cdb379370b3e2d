"""Two branches in training: MoCoSE (Cao et al., Findings of ACL 2022), https://aclanthology.org/2022.findings-acl.248."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, WithState
from isotrope.contract.layers import as_new, decay_at, follow
from isotrope.types import Counts, Fraction, Views, Whole


@dataclass(eq=False, repr=False)
class Branches(WithState):
    """(V, N, D) -> (V, N, D), in training only: what a predictor says of the key, and the key. BibTeX: cao2022mocose.

    The projector is Linear and LayerNorm, the predictor Linear and Tanh. The views ``slow`` go through a moving average
    of the projector alone, which follows as `isotrope.peers.moving_average` does. So do hard negatives.
    """

    stage = "views"
    slow: Counts = (1,)
    decay: Fraction = 0.85
    rise: Whole = 0

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        self.projector = nn.Sequential(as_new(nn.Linear(dim, dim)), nn.LayerNorm(dim))
        self.predictor = nn.Sequential(as_new(nn.Linear(dim, dim)), nn.Tanh())
        self.average = deepcopy(self.projector).requires_grad_(False)
        self.steps: Tensor = nn.Buffer(torch.tensor(0))

    def forward(self, views: Views) -> Views:
        views.named(self.slow, "views.branches.slow")
        through = [
            self.average(embeddings) if number in self.slow else self.predictor(self.projector(embeddings))
            for number, embeddings in enumerate(views.stack)
        ]
        return replace(views, stack=torch.stack(through), negatives=self.average(views.negatives))

    def after_step(self, objective: Any) -> None:
        follow(self.average, self.projector, decay_at(int(self.steps), self.decay, self.rise))
        self.steps += 1
