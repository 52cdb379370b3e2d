"""The training-only head of SimCSE: Linear + Tanh on the sentence embedding (Gao et al., EMNLP 2021, Sec. 6.3)."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from isotrope.contract.context import BuildContext
from isotrope.encoder.pooling import dense
from isotrope.types import Count, NonNegative, Views


class MLP(nn.Module):
    """(V, N, D) -> (V, N, D), thrown away after training unless ``train.keep_head``. BibTeX: gao2021simcse.

    Starts as every new layer of BERT does: weights from N(0, ``std``²), bias 0. (torch's default bias would give all
    sentences a common direction where embeddings are short, as normalised ones are.) ``dim``: D, by default the
    student's.
    """

    stage = "views"

    def __init__(self, dim: Count | None = None, std: NonNegative = 0.02) -> None:
        super().__init__()
        self.dim, self.std = dim, std
        if dim is not None:
            self.linear = nn.Linear(dim, dim)
            nn.init.normal_(self.linear.weight, std=std)
            nn.init.zeros_(self.linear.bias)

    def build(self, context: BuildContext) -> MLP:
        """With weights for the student's width, if none was given."""
        return self if self.dim else MLP(context.needed("width"), self.std)

    def layers(self) -> list[nn.Module]:
        """The head as it is now, for a model that keeps it."""
        return [dense(self.linear.weight, self.linear.bias, nn.Tanh())]

    def forward(self, views: Views) -> Views:
        stack, negatives = (self.linear(embeddings).tanh() for embeddings in (views.stack, views.negatives))
        return replace(views, stack=stack, negatives=negatives)
