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


def denoise(
    stack: Tensor,  # (V, N, D)
    templates: Sequence[int],
) -> Tensor:
    """h_p − ĥ_p for the first views p; ĥ_p is the view ``templates[p]``. The others stay -> (V, N,
    D).
    """
    count = len(templates)
    noise = stack[list(templates)]
    denoised = stack[:count] - noise
    return torch.cat([denoised, stack[count:]])


def mean_positive(
    positives: Tensor,  # (P, N, D)
    further: Tensor,  # (N, H, D)
) -> Tensor:
    """(p + Σ further) / (1 + H) for each positive p -> (P, N, D)."""
    total = positives + further.sum(dim=1)
    count = 1 + further.shape[1]
    return total / count


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
        numbers = [*self.templates, len(self.templates)]
        views.named(numbers, "views.denoised.templates")  # they exist, and a positive does
        stack = denoise(views.stack, self.templates)
        return views.with_stack(stack)


@dataclass(frozen=True)
class MeanPositive:
    """(V, N, D) -> (V, N, D): further columns hold positives; no hard negatives are left. BibTeX:
    giorgi2021declutr.
    """

    stage = "views"

    def __call__(self, views: Views) -> Views:
        anchor, positives = views.stack.tensor_split([1])  # (1, N, D), (P, N, D)
        means = mean_positive(positives, views.negatives)
        stack = torch.cat([anchor, means])
        return replace(views, stack=stack, negatives=views.negatives[:, :0])
