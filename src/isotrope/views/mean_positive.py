"""Several positives of a text as one: their mean (DeCLUTR).

Giorgi et al., ACL 2021, Sec. 3. https://aclanthology.org/2021.acl-long.72
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isotrope.types import Views


def mean_positive(
    positives: Tensor,  # (P, N, D)
    further: Tensor,  # (N, H, D)
) -> Tensor:
    """(p + Σ further) / (1 + H) for each positive p. (P, N, D)."""
    return (positives + further.sum(dim=1)) / (1 + further.shape[1])


@dataclass(frozen=True)
class MeanPositive:
    """(V, N, D) -> (V, N, D): further columns hold positives, not hard negatives. BibTeX: giorgi2021declutr.

    There are no hard negatives behind it.
    """

    stage = "views"

    def __call__(self, views: Views) -> Views:
        stack = torch.cat([views.stack[:1], mean_positive(views.stack[1:], views.negatives)])
        return replace(views, stack=stack, negatives=views.negatives[:, :0])
