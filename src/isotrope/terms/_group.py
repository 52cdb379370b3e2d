"""A sentence's place among its positives and the other sentences, as one list of probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.errors import UserError
from isotrope.types import Scores


def group_list(
    anchor: Tensor,  # (N, D)
    positives: Tensor,  # (P, N, D)
    others: Tensor,  # (N, D) row j of another sentence is a negative
    temperature: float,
) -> Tensor:
    """Softmax of cos(a_i, p_ri)/τ of P positives, then cos(a_i, o_j)/τ of all j ≠ i; its logarithm (N, P + N − 1)."""
    anchor, positives, others = (F.normalize(each, dim=-1) for each in (anchor, positives, others))
    own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    near, far = (anchor * positives).sum(dim=-1).T, (anchor @ others.T)[~own].view(len(anchor), -1)
    return (torch.cat([near, far], dim=1) / temperature).log_softmax(dim=1)


def views_named(scores: Scores, numbers: Sequence[int], key: str) -> Tensor:
    """The views of these numbers (len(numbers), N, D), in float32 or better.

    Raises:
        UserError: there is no such view; ``key`` names them.
    """
    if max(numbers) >= len(scores.views.stack):
        problem = f"{key} = {list(numbers)} is not possible: the views are 0 to {len(scores.views.stack) - 1}"
        raise UserError(problem, "name other views, or raise views.passes")
    return scores.views.stack[list(numbers)].to(scores.cosines)
