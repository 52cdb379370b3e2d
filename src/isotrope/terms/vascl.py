"""VaSCL (Zhang et al., Findings of ACL 2022, Sec. 3).
https://aclanthology.org/2022.findings-acl.70
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.draws import begun_again, ranks_of
from isotrope.contract.layers import as_new
from isotrope.terms.nt_xent import nt_xent
from isotrope.types import AboveZero, Batch, Count, NonNegative, Scores, Whole


def neighbourhood(
    rows: Tensor,  # (N, D)
    count: int,
) -> Tensor:
    """For each row, the ``count`` others of the largest dot product, or all there are -> (N, N)
    bool.
    """
    products = rows @ rows.T
    products.fill_diagonal_(-torch.inf)
    count = min(count, len(rows) - 1)
    nearest = products.topk(count, dim=1).indices  # (N, count)
    nowhere = torch.zeros_like(products, dtype=torch.bool)
    return nowhere.scatter(1, nearest, True)


def neighbour_contrast(
    a: Tensor,  # (N, F) unit rows
    b: Tensor,  # (N, F) unit rows
    near: Tensor,  # (N, N) bool
    temperature: float,
    both: bool = True,
) -> Tensor:
    """−log e^{a_i·b_i/τ} / (e^{a_i·b_i/τ} + Σ), mean -> ().

    For a_i, Σ is over e^{a_i·a_j/τ} and e^{a_i·b_j/τ} of the neighbours j of i; the mean is over
    all a_i and b_i. If not ``both``, it is over b_i alone, and Σ over e^{b_i·a_j/τ}.
    """
    anchors = [b, a] if both else [b]
    sides = [a, b] if both else [a]
    positive = (a * b).sum(dim=-1, keepdim=True)  # (N, 1)

    losses = []
    for anchor in anchors:
        products = [positive]
        for side in sides:
            negatives = anchor @ side.T  # (N, N)
            negatives = negatives.masked_fill(~near, -torch.inf)
            products.append(negatives)
        logits = torch.cat(products, dim=1) / temperature
        log_p = logits.log_softmax(dim=1)
        log_p_positive = log_p[:, 0]  # (N,)
        losses.append(-log_p_positive.mean())
    return torch.stack(losses).mean()


@dataclass(eq=False, repr=False)
class VaSCL(StatefulComponent):
    """NT-Xent behind a head, and the same of each anchor and its hardest perturbation. BibTeX:
    zhang2022vascl.

    The head is D → D → ``features``, without biases, and thrown away. A direction is drawn for each
    anchor e. Each step turns it to where a step of length ``radius`` makes the contrast with e's
    neighbours hardest. The term then pulls e and e + radius · direction together.
    """

    stage = "terms"
    temperature: AboveZero = 0.05
    neighbours: Count = 16  # sentences of the batch that are the negatives of a perturbed one
    radius: AboveZero = 15.0  # the perturbation's length; lengths of embeddings count
    steps: Whole = 1  # 0 leaves the direction as it is drawn
    features: Count = 128
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        width = context.needed("width")
        first = nn.Linear(width, width, bias=False)
        second = nn.Linear(width, self.features, bias=False)
        self.head = nn.Sequential(
            as_new(first),
            nn.ReLU(),
            as_new(second),
        )

    def forward(self, scores: Scores) -> Tensor:
        head_weight = next(self.head.parameters())
        stack = scores.views.stack[:2].to(head_weight)
        anchor, positive = stack  # (N, D) each

        # The hardest perturbation of each anchor.
        near = neighbourhood(anchor.detach(), self.neighbours)
        direction = self.drawn_direction(scores.views.batch, anchor)
        direction = self.hardest(direction, anchor.detach(), near)
        perturbed = anchor + self.radius * direction

        unit_anchor = self.unit(anchor)
        unit_perturbed = self.unit(perturbed)
        virtual_loss = neighbour_contrast(unit_anchor, unit_perturbed, near, self.temperature)
        pair_loss = nt_xent(self.head(anchor), self.head(positive), self.temperature)
        return self.weight * (pair_loss + virtual_loss)

    def drawn_direction(self, batch: Batch, anchor: Tensor) -> Tensor:
        """A random unit vector for each anchor (N, D), whatever the order of the sentences."""
        generator = begun_again(batch.generator)
        draws = torch.rand(anchor.shape, generator=generator)
        draws = draws.to(anchor)[ranks_of(batch.rows)]
        return F.normalize(draws - 0.5, dim=-1)

    def hardest(
        self,
        direction: Tensor,  # (N, D) unit rows
        anchor: Tensor,  # (N, D)
        near: Tensor,  # (N, N) bool
    ) -> Tensor:
        """The directions (N, D) after all steps up the gradient."""
        fixed = self.unit(anchor).detach()
        for _ in range(self.steps):
            with torch.enable_grad():
                direction = direction.detach().requires_grad_()
                perturbed = anchor + self.radius * direction
                unit_perturbed = self.unit(perturbed)
                loss = neighbour_contrast(fixed, unit_perturbed, near, self.temperature, both=False)
                (gradient,) = torch.autograd.grad(loss, direction)
            direction = F.normalize(gradient, dim=-1)
        return direction.detach()

    def unit(self, rows: Tensor) -> Tensor:
        """(N, D) -> (N, F) unit rows behind the head."""
        features = self.head(rows)
        return F.normalize(features, dim=-1)
