"""PaSeR: from a whole sentence's vector, and that of the sentence without a phrase, a decoder says the phrase.

Wu and Zhao, EMNLP 2022, Sec. 3. https://arxiv.org/abs/2210.08474. Its decoder begins with random weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.terms._decoder import Decoder
from isotrope.terms._words import hidden_in
from isotrope.terms.tsdae import tsdae
from isotrope.types import Count, NonNegative, Scores


def signals(
    whole: Tensor,  # (n, D)
    rest: Tensor,  # (n, D) behind the projection
) -> Tensor:
    """What the decoder sees of a sentence (n, 4, D): product, difference, and the two vectors."""
    return torch.stack([whole * rest, whole - rest, whole, rest], dim=1)


def said(
    text: Tensor,  # (n, L) token ids
    mask: Tensor,  # (n, L), 0 for padding
    hidden: Tensor,  # (n, L) bool
) -> tuple[Tensor, Tensor]:
    """[CLS], the hidden tokens and [SEP], from the left (n, L'), and their mask; nothing where nothing is hidden."""
    number = mask.cumsum(dim=1)
    ends = (mask > 0) & ((number == 1) | (number == number[:, -1:]))
    stay = (hidden | ends) & hidden.any(dim=1, keepdim=True)
    order = (~stay).long().argsort(dim=1, stable=True)[:, : max(2, int(stay.sum(dim=1).max()))]
    return text.gather(1, order), stay.long().gather(1, order)


@dataclass(frozen=True)
class PaSeR:
    """What a phrase says is the difference of two vectors. BibTeX: wu2022sentence.

    The first pass reads the whole text. The token step ``phrase`` hides words in the second. The vector of the second
    goes through a projection. That and the decoder are thrown away after training.

    Attributes:
        layers: of the decoder.

    Raises:
        UserError: a token step moves words in the second pass.
    """

    stage = "terms"
    layers: Count = 6
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its projection and its decoder."""
        return averaged(_Phrases(self, context))


class _Phrases(nn.Module):
    def __init__(self, term: PaSeR, context: BuildContext) -> None:
        super().__init__()
        self.term, width = term, context.needed("width")
        self.projection, self.decoder = nn.Linear(width, width), Decoder(term.layers, context)

    def forward(self, scores: Scores) -> Tensor:
        whole, rest = (own_rows(view).to(self.projection.weight) for view in scores.views.stack[:2])  # (n, D)
        text = scores.views.readings[1].text
        ids, mask = said(text["input_ids"], text["attention_mask"], hidden_in(scores.views, 1, "paser"))
        logits = self.decoder(signals(whole, self.projection(rest)), ids[:, :-1])
        return self.term.weight * mean_of_all(tsdae(logits, ids, mask))
