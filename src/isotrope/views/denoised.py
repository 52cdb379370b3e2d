"""A view without what its template says of itself (PromptBERT's template denoising).

Jiang et al., EMNLP 2022, Sec. 4.3. https://aclanthology.org/2022.emnlp-main.603
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotrope.types import Counts, Views


def denoise(
    stack: Tensor,  # (V, N, D)
    templates: Sequence[int],
) -> Tensor:
    """h_p − ĥ_p for the first views p; ĥ_p is the view ``templates[p]``. The others stay. (V, N, D)."""
    count = len(templates)
    return torch.cat([stack[:count] - stack[list(templates)], stack[count:]])


@dataclass(frozen=True)
class Denoised:
    """(V, N, D) -> (V, N, D), in training only: the new model gives h, not h − ĥ. BibTeX: jiang2022promptbert.

    Args:
        templates: for view 0, 1, …, the view whose template has no text in it. Say in ``scores.positives`` that it is
            no positive.
    """

    stage = "views"
    templates: Counts = (2,)

    def __call__(self, views: Views) -> Views:
        views.named([*self.templates, len(self.templates)], "views.denoised.templates")
        return views.with_stack(denoise(views.stack, self.templates))
