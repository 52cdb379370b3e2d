"""The training-only head of SimCSE: Linear + Tanh on the sentence embedding (Gao et al., EMNLP 2021, Sec. 6.3)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from isotrope.types import Count, NonNegative, Views


class MLP(nn.Module):
    """(V, N, D) -> (V, N, D), thrown away after training. BibTeX: gao2021simcse.

    Starts as every new layer of BERT does: weights from N(0, ``std``²), bias 0. (torch's default bias would give all
    sentences a common direction where embeddings are short, as normalised ones are.)
    """

    def __init__(self, dim: Count, std: NonNegative = 0.02) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        nn.init.normal_(self.linear.weight, std=std)
        nn.init.zeros_(self.linear.bias)

    def forward(self, views: Views) -> Views:
        return replace(views, stack=self._head(views.stack), negatives=self._head(views.negatives))

    def _head(self, embeddings: Tensor) -> Tensor:
        return torch.tanh(self.linear(embeddings))
