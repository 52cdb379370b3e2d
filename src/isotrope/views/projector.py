"""DiffCSE's training head (Chuang et al., NAACL 2022, Sec. 4.1).
https://aclanthology.org/2022.naacl-main.311
"""

from dataclasses import dataclass, replace

import torch
from torch import nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.layers import as_new
from isotrope.types import Views


@dataclass(eq=False, repr=False)
class Projector(StatefulComponent):
    """(V, N, D) -> (V, N, D), thrown away after training. BibTeX: chuang2022diffcse.

    D -> 2D, BatchNorm, ReLU, 2D -> D, BatchNorm without weights of its own. All views and hard
    negatives of the batch have one mean and one variance.
    """

    stage = "views"

    def begin(self, context: BuildContext) -> None:
        dim = context.needed("width")
        wide = nn.Linear(dim, 2 * dim, bias=False)
        narrow = nn.Linear(2 * dim, dim, bias=False)
        self.net = nn.Sequential(
            as_new(wide),
            nn.BatchNorm1d(2 * dim),
            nn.ReLU(),
            as_new(narrow),
            nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, views: Views) -> Views:
        stack = views.stack.flatten(0, 1)  # (V·N, D)
        negatives = views.negatives.flatten(0, 1)  # (N·H, D)
        rows = self.net(torch.cat([stack, negatives]))
        stack, negatives = rows.tensor_split([len(stack)])
        return replace(
            views,
            stack=stack.view_as(views.stack),
            negatives=negatives.view_as(views.negatives),
        )
