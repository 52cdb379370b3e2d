"""What a language model says in the place of a hidden word (Devlin et al., NAACL 2019, Sec. 3.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def hidden_words(
    logits: Tensor,  # (T, W)
    words: Tensor,  # (T,) token ids
) -> Tensor:
    """−log of the probability of each hidden word (T,)."""
    return F.cross_entropy(logits, words, reduction="none")


class Words(nn.Module):
    """States (…, H) -> scores of the words (…, W): a layer and a norm, then a table of words that it only reads.

    It begins with random weights: encoders come without these layers.
    """

    def __init__(self, width: int, table: nn.Embedding) -> None:
        super().__init__()
        self.table = (table,)  # in a tuple: it is saved elsewhere
        words, narrow = table.weight.shape
        self.layer, self.norm = nn.Linear(width, narrow), nn.LayerNorm(narrow)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, states: Tensor) -> Tensor:
        said: Tensor = self.norm(F.gelu(self.layer(states.to(self.bias.dtype))))
        return said @ self.table[0].weight.to(said.dtype).T + self.bias
