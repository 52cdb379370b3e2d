"""MoCoSE's two branches: projector and predictor for the anchors, a moving average of the projector for the keys.

Cao et al., Findings of ACL 2022. https://aclanthology.org/2022.findings-acl.248
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.moving import decay_at, follow
from isotrope.types import Count, Fraction, Views


def _linear(dim: int) -> nn.Linear:
    """Starts as BERT's new layers do."""
    layer = nn.Linear(dim, dim)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


class Branches(nn.Module):
    """(V, N, D) -> (V, N, D), in training only: what a predictor says of the key, and the key. BibTeX: cao2022mocose.

    The projector is Linear and LayerNorm, the predictor Linear and Tanh. Views of the slow branch go through a moving
    average of the projector alone. So do hard negatives.

    Args:
        dim: D, by default the student's.
        slow: the views of the slow branch.
        decay: as that of `isotrope.peers.moving_average`.
        rise: the same.
    """

    stage = "views"
    steps: Tensor

    def __init__(
        self,
        dim: Count | None = None,
        slow: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,),
        decay: Fraction = 0.85,
        rise: Annotated[int, Field(ge=0)] = 0,
    ) -> None:
        super().__init__()
        self.dim, self.slow, self.decay, self.rise = dim, slow, decay, rise
        if dim is not None:
            self.projector = nn.Sequential(_linear(dim), nn.LayerNorm(dim))
            self.predictor = nn.Sequential(_linear(dim), nn.Tanh())
            self.average = deepcopy(self.projector).requires_grad_(False)
            self.register_buffer("steps", torch.tensor(0))

    def build(self, context: BuildContext) -> Branches:
        """With weights for the student's width, if none was given."""
        return self if self.dim else Branches(context.needed("width"), self.slow, self.decay, self.rise)

    def forward(self, views: Views) -> Views:
        views.named(self.slow, "views.branches.slow")
        through = [
            self.average(embeddings) if number in self.slow else self.predictor(self.projector(embeddings))
            for number, embeddings in enumerate(views.stack)
        ]
        return replace(views, stack=torch.stack(through), negatives=self.average(views.negatives))

    def after_step(self, objective: Any) -> None:
        """The average follows the projector."""
        follow(self.average, self.projector, decay_at(int(self.steps), self.decay, self.rise))
        self.steps += 1
