"""NT-Xent of a sentence and its translation there and back, behind SG-OPT's projector: "Contrastive (BT)".

Kim et al., ACL 2021, Sec. 4, after Fang and Xie, 2020. https://aclanthology.org/2021.acl-long.197
"""

from __future__ import annotations

from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.terms._projector import Drift, freeze_embeddings, projector
from isotrope.terms.nt_xent import nt_xent
from isotrope.types import AboveZero, Count, NonNegative, Scores


class Translated(nn.Module):
    """`nt_xent` of the data's texts and positives, both projected. BibTeX: kim2021selfguided.

    The translations are the user's, in a column of positives. ``drift`` and ``size`` are as in
    `isotrope.terms.self_guided`.
    """

    stage = "terms"
    needs_positives = True

    projector: nn.Sequential
    moved: Drift

    def __init__(
        self, size: Count, temperature: AboveZero = 0.01, drift: NonNegative = 0.1, weight: NonNegative = 1.0
    ) -> None:
        super().__init__()
        self.size, self.temperature, self.drift, self.weight = size, temperature, drift, weight

    def build(self, context: BuildContext) -> Translated:
        """With a projector for the student's width."""
        made = Translated(self.size, self.temperature, self.drift, self.weight)
        made.projector = projector(context.needed("width"), self.size)
        freeze_embeddings(context)
        made.moved = Drift(context, self.drift)
        return made

    def forward(self, scores: Scores) -> Tensor:
        anchor, positive = self.projector(scores.views.stack[:2].to(next(self.projector.parameters())))
        return self.weight * (nt_xent(anchor, positive, self.temperature) + self.moved())  # type: ignore[no-any-return]
