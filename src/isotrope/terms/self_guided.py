"""A sentence's vector against the inner layers of the model as it was before training (SG-OPT).

Kim et al., ACL 2021, Sec. 3. https://aclanthology.org/2021.acl-long.197
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.terms._projector import Projected


def self_guided(
    anchor: Tensor,  # (N, F)
    layers: Tensor,  # (K, N, F)
    temperature: float,
) -> Tensor:
    """−log e^{s_iki/τ} / (e^{s_iki/τ} + Σ_{m, j≠i} e^{s_imj/τ}), mean over sentences i and layers k -> ().

    s_ikj is the cosine of the anchor i and layer k of sentence j. So a sentence's other layers are no negatives.
    """
    logits = F.normalize(anchor, dim=-1) @ F.normalize(layers, dim=-1).transpose(1, 2) / temperature  # (K, N, N)
    own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    positives = logits.diagonal(dim1=1, dim2=2)  # (K, N)
    others = logits.masked_fill(own, -torch.inf).transpose(0, 1).flatten(1).logsumexp(dim=1)  # (N,)
    return (torch.logaddexp(positives, others.expand_as(positives)) - positives).mean()


class SelfGuided(Projected):
    """The views after the first are layers; all go through a projector. BibTeX: kim2021selfguided.

    ``drift`` · ‖θ − θ₀‖² joins the loss, for weights θ that began as θ₀. The embedding layer is not trained.
    ``size`` is the projector's width.
    """

    stage = "terms"

    def contrast(self, stack: Tensor) -> Tensor:
        """`self_guided` of the first view and all others."""
        return self_guided(stack[0], stack[1:], self.temperature)
