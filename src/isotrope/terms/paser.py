"""PaSeR (Wu and Zhao, EMNLP 2022, Sec. 3). https://arxiv.org/abs/2210.08474"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, WithState
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.contract.features import token_table
from isotrope.terms._words import hidden_in
from isotrope.terms.tsdae import tsdae
from isotrope.types import Count, NonNegative, Scores

HEAD_WIDTH = 64  # dimensions of an attention head, as in BERT


def signals(whole: Tensor, rest: Tensor) -> Tensor:
    """What the decoder sees of a sentence: product, difference, and the two vectors. (n, D), (n, D)
    -> (n, 4, D).
    """
    return torch.stack([whole * rest, whole - rest, whole, rest], dim=1)


def said(text: Tensor, mask: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """[CLS], the hidden tokens and [SEP], from the left (n, L'), and their mask; nothing where
    nothing is hidden.

    Token ids, their mask (0 for padding) and which are hidden (bool), (n, L) each.
    """
    number = mask.cumsum(dim=1)
    ends = (mask > 0) & ((number == 1) | (number == number[:, -1:]))
    stay = (hidden | ends) & hidden.any(dim=1, keepdim=True)
    order = (~stay).long().argsort(dim=1, stable=True)[:, : max(2, int(stay.sum(dim=1).max()))]
    return text.gather(1, order), stay.long().gather(1, order)


@dataclass(eq=False, repr=False)
class PaSeR(WithState):
    """From the vectors of a sentence with and without a phrase, a decoder says the phrase. BibTeX:
    wu2022sentence.

    The first pass reads the whole text. The token step ``phrase`` hides words in the second, whose
    vector goes through a projection. That and the decoder, which has so many ``layers``, are thrown
    away after training.
    """

    stage = "terms"
    layers: Count = 6
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        width = context.needed("width")
        self.projection = nn.Linear(width, width)
        self.decoder = _Decoder(self.layers, width, token_table(context.needed("student")))
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        # (n, D)
        whole, rest = (own_rows(view).to(self.projection.weight) for view in scores.views.stack[:2])
        text = scores.views.readings[1].text
        ids, mask = said(
            text["input_ids"], text["attention_mask"], hidden_in(scores.views, 1, "paser")
        )
        logits = self.decoder(signals(whole, self.projection(rest)), ids[:, :-1])
        return self.weight * mean_of_all(tsdae(logits, ids, mask))


class _Decoder(nn.Module):
    """All that is known of a sentence (n, M, D), and the tokens before (n, L) -> scores of the next
    ones (n, L, W).

    A Transformer's (https://arxiv.org/abs/1706.03762), with random weights and the student's table
    of tokens.
    """

    def __init__(self, layers: int, known: int, table: nn.Embedding) -> None:
        super().__init__()
        self.shared = (table,)  # in a tuple: it is the student's, not the decoder's to save
        words, width = table.weight.shape
        self.norm, self.sentence = nn.LayerNorm(width), nn.Linear(known, width)
        heads = max(
            heads for heads in range(1, max(1, width // HEAD_WIDTH) + 1) if width % heads == 0
        )
        # No dropout: the noise is in the text.
        layer = nn.TransformerDecoderLayer(
            width, heads, width, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.network = nn.TransformerDecoder(layer, layers, nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, known: Tensor, before: Tensor) -> Tensor:
        memory = self.sentence(known)  # (n, M, E)
        table = self.shared[0].weight.to(self.bias.dtype)  # (W, E)
        states = self.norm(F.embedding(before, table)) + _positions(before.shape[1], memory)
        future = nn.Transformer.generate_square_subsequent_mask(
            before.shape[1], states.device, states.dtype
        )
        said: Tensor = self.network(states, memory, future, tgt_is_causal=True)  # (n, L, E)
        return said @ table.T + self.bias


def _positions(length: int, like: Tensor) -> Tensor:
    """Sines and cosines (L, E) of every place, as in the first Transformer: nothing to learn, and
    no longest text.
    """
    width = like.shape[-1]
    place = torch.arange(length, device=like.device, dtype=like.dtype)[:, None]
    angles = place * torch.exp(
        torch.arange(0, width, 2, device=like.device) * (-math.log(1e4) / width)
    ).to(like)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
