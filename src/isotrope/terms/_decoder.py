"""A small decoder beside any encoder: what is known of a sentence, and its tokens so far, give the next token.

Vaswani et al., NeurIPS 2017, Sec. 3. https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.features import token_table
from isotrope.types import Count

HEAD_WIDTH = 64  # dimensions of an attention head, as in BERT


class Decoder(nn.Module):
    """All that is known of a sentence (n, M, D), and the tokens before (n, L) -> scores of the next ones (n, L, W).

    The student's table reads the tokens before, and scores the next.

    Raises:
        UserError: the student has no table of tokens.
    """

    def __init__(self, layers: Count, context: BuildContext) -> None:
        super().__init__()
        # In a tuple: the table is the student's, not the decoder's to save.
        self.shared = (token_table(context.needed("student")),)
        words, width = self.shared[0].weight.shape
        self.norm = nn.LayerNorm(width)
        self.sentence = nn.Linear(context.needed("width"), width)
        heads = max(heads for heads in range(1, max(1, width // HEAD_WIDTH) + 1) if width % heads == 0)
        # No dropout: the noise is in the text.
        layer = nn.TransformerDecoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.network = nn.TransformerDecoder(layer, layers, nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, known: Tensor, before: Tensor) -> Tensor:
        memory = self.sentence(known.to(self.bias.dtype))  # (n, M, E)
        table = self.shared[0].weight.to(self.bias.dtype)  # (W, E)
        states = self.norm(F.embedding(before, table)) + _positions(before.shape[1], memory)
        future = nn.Transformer.generate_square_subsequent_mask(before.shape[1], states.device, states.dtype)
        said: Tensor = self.network(states, memory, future, tgt_is_causal=True)  # (n, L, E)
        return said @ table.T + self.bias


def _positions(length: int, like: Tensor) -> Tensor:
    """Sines and cosines (L, E) of every place, as in the first Transformer: nothing to learn, and no longest text."""
    width = like.shape[-1]
    place = torch.arange(length, device=like.device, dtype=like.dtype)[:, None]
    angles = place * torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(1e4) / width)).to(like)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
