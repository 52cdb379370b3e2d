"""TSDAE: a decoder rebuilds the whole sentence from the vector of the damaged one.

Wang et al., Findings of EMNLP 2021, Sec. 3 and Eq. 1. https://arxiv.org/abs/2104.06979. Its decoder is the encoder
again. Ours is small and works with every encoder that has a table of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.encoder.distributed import averaged, mean_of_all, own_rows
from isotrope.encoder.features import token_table
from isotrope.types import Count, NonNegative, Scores

HEAD_WIDTH = 64  # dimensions of an attention head, as in BERT


def tsdae(logits: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Cross entropy of each token behind the first, given those before it (T,).

    logits (n, L - 1, W) of the tokens behind the first; target (n, L) token ids; mask (n, L), 0 for padding.
    """
    losses = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="none")  # (n, L - 1)
    return losses[mask[:, 1:].bool()]


@dataclass(frozen=True)
class TSDAE:
    """What the decoder cannot know from the words before, it must find in the vector. BibTeX: wang2021tsdae.

    It reads the vector of the first view, and the text before token steps. The decoder is thrown away after training.

    Attributes:
        layers: of the decoder.
    """

    stage = "terms"
    one_view = True
    layers: Count = 1
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its decoder.

        Raises:
            UserError: the student has no table of tokens.
        """
        return averaged(_Rebuilding(self, context))


class _Rebuilding(nn.Module):
    """Vectors (n, D) and the tokens before -> each next token. The student's table reads them, and scores the next."""

    one_view = True

    def __init__(self, term: TSDAE, context: BuildContext) -> None:
        super().__init__()
        # In a tuple: the table is the student's, not the decoder's to save.
        self.term, self.shared = term, (token_table(context.needed("student")),)
        words, width = self.shared[0].weight.shape
        self.norm = nn.LayerNorm(width)
        self.sentence = nn.Linear(context.needed("width"), width)
        heads = max(heads for heads in range(1, max(1, width // HEAD_WIDTH) + 1) if width % heads == 0)
        # No dropout: the noise is in the text.
        layer = nn.TransformerDecoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, term.layers, nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, scores: Scores) -> Tensor:
        text = scores.views.readings[0].text
        order = (1 - text["attention_mask"]).argsort(dim=1, stable=True)  # some tokenizers pad at the left
        ids, mask = (text[name].gather(1, order) for name in ("input_ids", "attention_mask"))
        vectors = own_rows(scores.views.stack[0])  # (n, D)
        return self.term.weight * mean_of_all(tsdae(self.logits(vectors, ids[:, :-1]), ids, mask))

    def logits(self, vectors: Tensor, before: Tensor) -> Tensor:
        """(n, D) and the token ids before (n, L) -> scores of the tokens that follow each (n, L, W)."""
        memory = self.sentence(vectors.to(self.bias.dtype))[:, None]  # (n, 1, E): all that is known of the sentence
        table = self.shared[0].weight.to(self.bias.dtype)  # (W, E)
        states = self.norm(F.embedding(before, table)) + _positions(before.shape[1], memory)
        future = nn.Transformer.generate_square_subsequent_mask(before.shape[1], states.device, states.dtype)
        said: Tensor = self.decoder(states, memory, future, tgt_is_causal=True)  # (n, L, E)
        return said @ table.T + self.bias


def _positions(length: int, like: Tensor) -> Tensor:
    """Sines and cosines (L, E) of every place, as in the first Transformer: nothing to learn, and no longest text."""
    width = like.shape[-1]
    place = torch.arange(length, device=like.device, dtype=like.dtype)[:, None]
    angles = place * torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(1e4) / width)).to(like)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
