"""SG-OPT and Contrastive (BT) (Kim et al., ACL 2021, Sec. 3, 4).
https://aclanthology.org/2021.acl-long.197
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.diagonal import on_diagonal
from isotrope.contract.distributed import rank_count
from isotrope.contract.layers import as_new
from isotrope.errors import UserError
from isotrope.terms.nt_xent import nt_xent
from isotrope.types import AboveZero, Count, NonNegative, Scores


def self_guided(
    anchor: Tensor,  # (N, F)
    layers: Tensor,  # (K, N, F)
    temperature: float,
) -> Tensor:
    """−log e^{s_iki/τ} / (e^{s_iki/τ} + Σ_{m, j≠i} e^{s_imj/τ}), mean over sentences i and layers k
    -> ().

    s_ikj is the cosine of the anchor i and layer k of sentence j. So a sentence's other layers are
    no negatives.
    """
    anchor = F.normalize(anchor, dim=-1)
    layers = F.normalize(layers, dim=-1)
    logits = anchor @ layers.mT / temperature  # (K, N, N)
    positives = logits.diagonal(dim1=1, dim2=2)  # (K, N)

    # log Σ_{m, j≠i} e^{s_imj/τ}
    negatives = logits.masked_fill(on_diagonal(logits), -torch.inf)
    negatives = negatives.transpose(0, 1).flatten(1)  # (N, K·N)
    log_sum = negatives.logsumexp(dim=1)  # (N,)

    log_denominator = torch.logaddexp(positives, log_sum.expand_as(positives))
    return (log_denominator - positives).mean()


@dataclass(eq=False, repr=False)
class SelfGuided(StatefulComponent):
    """A sentence's vector against the model's inner layers, the other views. BibTeX:
    kim2021selfguided.

    All go through a projector D → ``size`` → ``size`` with GELU behind both, thrown away. ``drift``
    · ‖θ − θ₀‖² joins the loss, for all weights θ of the student that are trained, which began as
    θ₀. The embedding layer is not trained.
    """

    stage = "terms"
    size: Count
    temperature: AboveZero = 0.01
    drift: NonNegative = 0.1
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        first = nn.Linear(context.needed("width"), self.size)
        second = nn.Linear(self.size, self.size)
        self.projector = nn.Sequential(
            as_new(first),
            nn.GELU(),
            as_new(second),
            nn.GELU(),
        )

        student = nn.Identity() if context.student is None else context.student
        for module in student.modules():
            embeddings = getattr(module, "embeddings", None)
            if isinstance(embeddings, nn.Module):
                embeddings.requires_grad_(False)
        # Gradients are averaged as each weight's first one is ready.
        if self.drift and rank_count() > 1:
            problem = (
                f"drift = {self.drift} reads the weights themselves,"
                f" which {rank_count()} processes cannot"
            )
            remedy = "run one process, or set drift = 0"
            raise UserError(problem, remedy, code="several-processes")
        # A plain list: the weights are the student's, and are saved with it.
        self.trained = [weight for weight in student.parameters() if weight.requires_grad]
        for number, weight in enumerate(self.trained):
            start = weight.detach().clone()
            self.register_buffer(f"start{number}", start, persistent=False)

    def forward(self, scores: Scores) -> Tensor:
        weight = next(self.projector.parameters())
        stack = scores.views.stack.to(weight)
        stack = self.projector(stack)  # (V, N, F)
        loss = self.contrast(stack)
        if self.drift:
            loss = loss + self.drift * self.moved()
        return self.weight * loss

    def moved(self) -> Tensor | int:
        """‖θ − θ₀‖², as () or 0 where nothing is trained."""
        pairs = zip(self.trained, self.buffers(), strict=True)
        return sum((now - start).square().sum() for now, start in pairs)

    def contrast(self, stack: Tensor) -> Tensor:
        """Projected views (V, N, F) -> ()."""
        return self_guided(stack[0], stack[1:], self.temperature)


class Translated(SelfGuided):
    """`nt_xent` of texts and their positives: translations there and back, projected. BibTeX:
    kim2021selfguided.
    """

    needs_positives = True

    def contrast(self, stack: Tensor) -> Tensor:
        return nt_xent(stack[0], stack[1], self.temperature)
