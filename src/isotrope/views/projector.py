"""Training-only heads with several layers: DiffCSE's projector, and MoCoSE's two branches.

DiffCSE: Chuang et al., NAACL 2022, Sec. 4.1, https://aclanthology.org/2022.naacl-main.311. MoCoSE: Cao et al., Findings
of ACL 2022, https://aclanthology.org/2022.findings-acl.248.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, WithState
from isotrope.contract.layers import as_new, decay_at, follow
from isotrope.types import Counts, Fraction, Views, Whole


@dataclass(eq=False, repr=False)
class Projector(WithState):
    """(V, N, D) -> (V, N, D), thrown away after training. BibTeX: chuang2022diffcse.

    D -> 2D, BatchNorm, ReLU, 2D -> D, BatchNorm without weights of its own. All views and hard negatives of the batch
    have one mean and one variance.
    """

    stage = "views"

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        wide, narrow = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)
        as_new(wide)
        as_new(narrow)
        ends = nn.BatchNorm1d(2 * dim), nn.BatchNorm1d(dim, affine=False)
        self.net = nn.Sequential(wide, ends[0], nn.ReLU(), narrow, ends[1])

    def forward(self, views: Views) -> Views:
        given = views.stack, views.negatives
        rows = self.net(torch.cat([each.flatten(0, 1) for each in given]))
        stack, negatives = rows.split([each.shape[:2].numel() for each in given])
        return replace(views, stack=stack.view_as(given[0]), negatives=negatives.view_as(given[1]))


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
