"""TSDAE: a decoder rebuilds the whole sentence from the vector of the damaged one.

Wang et al., Findings of EMNLP 2021, Sec. 3 and Eq. 1. https://arxiv.org/abs/2104.06979. The decoder is the encoder
itself, as there. It sees no later token, and the vector of the damaged sentence stands in the place of the first one.
There, attention to the vector is added to every layer, which not every architecture has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.encoder.distributed import averaged, mean_of_all, own_rows
from isotrope.encoder.fast.attention import HIDDEN
from isotrope.encoder.features import language_model, token_table
from isotrope.terms._words import Words
from isotrope.types import NonNegative, Scores


def tsdae(logits: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Cross entropy of each token behind the first, given those before it (T,).

    logits (n, L - 1, W) of the tokens behind the first; target (n, L) token ids; mask (n, L), 0 for padding.
    """
    losses = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="none")  # (n, L - 1)
    return losses[mask[:, 1:].bool()]


@dataclass(frozen=True)
class TSDAE:
    """What the decoder cannot know from the words before, it must find in the vector. BibTeX: wang2021tsdae.

    It reads the vector of the first view, and the text before token steps. Its own weights, which bring the vector in
    and choose the words, are thrown away after training.
    """

    stage = "terms"
    one_view = True
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with what the student lacks as a decoder.

        Raises:
            UserError: the student has no table of tokens.
        """
        return averaged(_Rebuilding(self, context))


class _Rebuilding(nn.Module):
    one_view = True

    def __init__(self, term: TSDAE, context: BuildContext) -> None:
        super().__init__()
        student = context.needed("student")
        table: nn.Embedding = token_table(student)
        model: Any = language_model(student)
        # In a tuple: they are the student's, not the term's to save.
        self.term, self.shared = term, (model, table)
        self.sentence = nn.Linear(context.needed("width"), table.embedding_dim, bias=False)
        nn.init.eye_(self.sentence.weight)
        self.words = Words(model.config.hidden_size, table)

    def said(self, vectors: Tensor, before: Tensor) -> Tensor:
        """Vectors (n, D) and the tokens before (n, L), whose first is not read -> scores of the next ones (n, L, W)."""
        model, table = self.shared
        start = self.sentence(vectors.to(self.sentence.weight.dtype))[:, None].to(table.weight.dtype)
        states = torch.cat([start, table(before[:, 1:])], dim=1)  # (n, L, E)
        length = before.shape[1]
        later = states.new_full((length, length), HIDDEN).triu(1).expand(len(before), 1, length, length)
        found: Tensor = self.words(model(inputs_embeds=states, attention_mask=later).last_hidden_state)
        return found

    def forward(self, scores: Scores) -> Tensor:
        text = scores.views.readings[0].text
        order = (1 - text["attention_mask"]).argsort(dim=1, stable=True)  # some tokenizers pad at the left
        ids, mask = (text[name].gather(1, order) for name in ("input_ids", "attention_mask"))
        vectors = own_rows(scores.views.stack[0])  # (n, D)
        return self.term.weight * mean_of_all(tsdae(self.said(vectors, ids[:, :-1]), ids, mask))
