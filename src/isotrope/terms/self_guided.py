"""A sentence's vector against the inner layers of the model as it was before training (SG-OPT).

Kim et al., ACL 2021, Sec. 3. https://aclanthology.org/2021.acl-long.197
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.terms._projector import Drift, freeze_embeddings, projector
from isotrope.types import AboveZero, Count, NonNegative, Scores


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


class SelfGuided(nn.Module):
    """The views after the first are layers; all go through a projector. BibTeX: kim2021selfguided.

    ``drift`` · ‖θ − θ₀‖² joins the loss, for weights θ that began as θ₀. The embedding layer is not trained.

    Args:
        size: the projector's width.
    """

    stage = "terms"

    projector: nn.Sequential
    moved: Drift

    def __init__(
        self, size: Count, temperature: AboveZero = 0.01, drift: NonNegative = 0.1, weight: NonNegative = 1.0
    ) -> None:
        super().__init__()
        self.size, self.temperature, self.drift, self.weight = size, temperature, drift, weight

    def build(self, context: BuildContext) -> SelfGuided:
        """With a projector for the student's width."""
        made = SelfGuided(self.size, self.temperature, self.drift, self.weight)
        made.projector = projector(context.needed("width"), self.size)
        freeze_embeddings(context)
        made.moved = Drift(context, self.drift)
        return made

    def forward(self, scores: Scores) -> Tensor:
        stack = self.projector(scores.views.stack.to(next(self.projector.parameters())))  # (V, N, F)
        return self.weight * (self_guided(stack[0], stack[1:], self.temperature) + self.moved())  # type: ignore[no-any-return]
