"""PaSeR (Wu and Zhao, EMNLP 2022, Sec. 3). https://arxiv.org/abs/2210.08474"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.contract.features import token_table
from isotrope.terms._words import hidden_in
from isotrope.terms.tsdae import tsdae
from isotrope.types import Count, NonNegative, Scores

HEAD_WIDTH = 64  # dimensions of an attention head, as in BERT


def signals(
    text: Tensor,  # (n, D)
    without: Tensor,  # (n, D)
) -> Tensor:
    """What the decoder sees of a sentence: product, difference, and the two vectors -> (n, 4,
    D).
    """
    product = text * without
    difference = text - without
    return torch.stack([product, difference, text, without], dim=1)


def phrase_only(
    text: Tensor,  # (n, L) token ids
    mask: Tensor,  # (n, L), 0 for padding
    hidden: Tensor,  # (n, L) bool
) -> tuple[Tensor, Tensor]:
    """[CLS], the hidden tokens and [SEP], from the left (n, L'), and their mask; nothing where
    nothing is hidden.
    """
    # Real tokens are numbered from 1.
    number = mask.cumsum(dim=1)
    count = number[:, -1:]  # (n, 1)
    is_real = mask > 0
    is_first = number == 1
    is_last = number == count
    is_end = is_real & (is_first | is_last)
    has_hidden = hidden.any(dim=1, keepdim=True)  # (n, 1)
    stays = (hidden | is_end) & has_hidden  # (n, L)

    # What stays moves to the left, in its order.
    longest = int(stays.sum(dim=1).max())
    length = max(2, longest)
    goes = (~stays).long()
    order = goes.argsort(dim=1, stable=True)
    order = order[:, :length]  # (n, L')
    phrase = text.gather(1, order)
    phrase_mask = stays.long().gather(1, order)
    return phrase, phrase_mask


@dataclass(eq=False, repr=False)
class PaSeR(StatefulComponent):
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
        table = token_table(context.needed("student"))
        self.projection = nn.Linear(width, width)
        self.decoder = _Decoder(self.layers, width, table)
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        views = scores.views
        stack = views.stack.to(self.projection.weight)  # (V, N, D)
        with_phrase = own_rows(stack[0])  # (n, D)
        without = self.projection(own_rows(stack[1]))  # (n, D)
        memory = signals(with_phrase, without)  # (n, 4, D)

        # The decoder says each token of the phrase, given those before it.
        text = views.readings[1].text
        hidden = hidden_in(views, 1, "paser")
        phrase, mask = phrase_only(text["input_ids"], text["attention_mask"], hidden)
        before = phrase[:, :-1]
        logits = self.decoder(memory, before)
        losses = tsdae(logits, phrase, mask)  # (T,)
        return self.weight * mean_of_all(losses)


class _Decoder(nn.Module):
    """Signals of a sentence (n, M, D), and the tokens before (n, L) -> scores of the next ones (n,
    L, W).

    A Transformer's (https://arxiv.org/abs/1706.03762), with random weights and the student's table
    of tokens.
    """

    def __init__(self, layers: int, signal_width: int, table: nn.Embedding) -> None:
        super().__init__()
        self.shared = (table,)  # in a tuple: it is the student's, not the decoder's to save
        words, width = table.weight.shape
        self.norm = nn.LayerNorm(width)
        self.sentence = nn.Linear(signal_width, width)
        layer = nn.TransformerDecoderLayer(
            d_model=width,
            nhead=_head_count(width),
            dim_feedforward=width,
            dropout=0.0,  # the noise is in the text
            activation=F.gelu,
            batch_first=True,
            norm_first=True,
        )
        last_norm = nn.LayerNorm(width)
        self.network = nn.TransformerDecoder(layer, layers, last_norm)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(
        self,
        sentence_signals: Tensor,  # (n, M, D)
        before: Tensor,  # (n, L)
    ) -> Tensor:
        length = before.shape[1]
        memory = self.sentence(sentence_signals)  # (n, M, E)
        (shared,) = self.shared
        table = shared.weight.to(self.bias.dtype)  # (W, E)
        tokens = self.norm(F.embedding(before, table))  # (n, L, E)
        states = tokens + _positions(length, memory)
        future = nn.Transformer.generate_square_subsequent_mask(length, states.device, states.dtype)
        decoded: Tensor = self.network(states, memory, future, tgt_is_causal=True)  # (n, L, E)
        return decoded @ table.T + self.bias


def _head_count(width: int) -> int:
    """The largest number of equal heads that are at least `HEAD_WIDTH` wide; 1 for a narrower
    model.
    """
    count = max(1, width // HEAD_WIDTH)
    while width % count:
        count -= 1
    return count


def _positions(length: int, like: Tensor) -> Tensor:
    """Sines and cosines (L, E) of every place, as in the first Transformer: nothing to learn, and
    no longest text.
    """
    width = like.shape[-1]
    positions = torch.arange(length, device=like.device, dtype=like.dtype)
    dimensions = torch.arange(0, width, 2, device=like.device)
    rate = -math.log(1e4) / width
    frequencies = torch.exp(dimensions * rate).to(like)  # (E / 2,)

    angles = positions.unsqueeze(-1) * frequencies  # (L, E / 2)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (L, E / 2, 2)
    waves = waves.flatten(1)
    return waves[:, :width]
