"""Views made of others: without what a template says of itself, or with several positives as their
mean.

PromptBERT, Sec. 4.3: https://aclanthology.org/2022.emnlp-main.603. DeCLUTR:
https://aclanthology.org/2021.acl-long.72.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isotrope.types import Counts, Views


def denoise(stack: Tensor, templates: Sequence[int]) -> Tensor:
    """h_p − ĥ_p for the first views p; ĥ_p is the view ``templates[p]``. The others stay. (V, N, D)
    -> (V, N, D).
    """
    count = len(templates)
    return torch.cat([stack[:count] - stack[list(templates)], stack[count:]])


def mean_positive(positives: Tensor, further: Tensor) -> Tensor:
    """(p + Σ further) / (1 + H) for each positive p. (P, N, D), (N, H, D) -> (P, N, D)."""
    return (positives + further.sum(dim=1)) / (1 + further.shape[1])


@dataclass(frozen=True)
class Denoised:
    """(V, N, D) -> (V, N, D), in training only: the new model gives h, not h − ĥ. BibTeX:
    jiang2022promptbert.

    ``templates``: for view 0, 1, …, the view whose template has no text; ``scores.positives``
    leaves it out.
    """

    stage = "views"
    templates: Counts = (2,)

    def __call__(self, views: Views) -> Views:
        views.named([*self.templates, len(self.templates)], "views.denoised.templates")
        return views.with_stack(denoise(views.stack, self.templates))


@dataclass(frozen=True)
class MeanPositive:
    """(V, N, D) -> (V, N, D): further columns hold positives; no hard negatives are left. BibTeX:
    giorgi2021declutr.
    """

    stage = "views"

    def __call__(self, views: Views) -> Views:
        stack = torch.cat([views.stack[:1], mean_positive(views.stack[1:], views.negatives)])
        return replace(views, stack=stack, negatives=views.negatives[:, :0])
