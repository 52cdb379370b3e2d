"""TSDAE: a decoder rebuilds the whole sentence from the vector of the damaged one.

Wang et al., Findings of EMNLP 2021, Sec. 3 and Eq. 1. https://arxiv.org/abs/2104.06979. The decoder is a copy of the
encoder that sees no later token. The vector of the damaged sentence stands in the place of the first token. In the
paper, encoder and decoder share their weights, and attention to the vector is added to every layer.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.contract.features import language_model, token_table
from isotrope.encoder.fast.attention import HIDDEN
from isotrope.errors import UserError
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

    It reads the vector of the first view, and the text before token steps. The decoder is trained, too, and thrown away
    after training. It needs the memory of one more model, for each width.
    """

    stage = "terms"
    one_view = True
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its decoder."""
        made = _Rebuilding(self, context)
        if not made.can_decode():
            kind = made.decoder.config.model_type
            raise UserError(f"terms.tsdae: a {kind} cannot be the decoder", "choose another backbone, such as BERT")
        return averaged(made)


class _Rebuilding(nn.Module):
    one_view = True

    decoder: Any  # of transformers, where no types are known

    def __init__(self, term: TSDAE, context: BuildContext) -> None:
        super().__init__()
        student = context.needed("student")
        width = token_table(student).embedding_dim
        self.term, self.decoder = term, deepcopy(language_model(student))
        self.sentence = nn.Linear(context.needed("width"), width, bias=False)
        nn.init.eye_(self.sentence.weight)
        self.words = Words(self.decoder.config.hidden_size, token_table(self.decoder))

    def said(self, vectors: Tensor, before: Tensor) -> Tensor:
        """Vectors (n, D) in the place of the first token, and tokens (n, L) -> scores of the next ones (n, L, W)."""
        table = token_table(self.decoder)
        start = self.sentence(vectors.to(self.sentence.weight.dtype))[:, None].to(table.weight.dtype)
        states = torch.cat([start, table(before[:, 1:])], dim=1)  # (n, L, E)
        length = before.shape[1]
        later = states.new_full((length, length), HIDDEN).triu(1).expand(len(before), 1, length, length)
        found: Tensor = self.words(self.decoder(inputs_embeds=states, attention_mask=later).last_hidden_state)
        return found

    def can_decode(self) -> bool:
        """Whether no score depends on later tokens, and every weight has one name, as checkpoints need it."""
        stored = [tensor.data_ptr() for tensor in self.decoder.state_dict().values()]
        ids = torch.tensor([[0, 1, 2], [0, 1, 3]], device=self.sentence.weight.device)
        training = self.training
        try:
            with torch.no_grad():
                first, other = self.eval().said(ids.new_ones(2, self.sentence.in_features), ids)[:, :2]
        except RuntimeError:  # an architecture that takes no mask of four dimensions
            return False
        finally:
            self.train(training)
        return len(set(stored)) == len(stored) and torch.allclose(first, other, atol=1e-4)

    def forward(self, scores: Scores) -> Tensor:
        text = scores.views.readings[0].text
        order = (1 - text["attention_mask"]).argsort(dim=1, stable=True)  # some tokenizers pad at the left
        ids, mask = (text[name].gather(1, order) for name in ("input_ids", "attention_mask"))
        vectors = own_rows(scores.views.stack[0])  # (n, D)
        return self.term.weight * mean_of_all(tsdae(self.said(vectors, ids[:, :-1]), ids, mask))
