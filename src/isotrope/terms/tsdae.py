"""TSDAE (Wang et al., Findings of EMNLP 2021, Sec. 3 and Eq. 1).
https://arxiv.org/abs/2104.06979
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.contract.features import language_model, token_table
from isotrope.encoder.fast.attention import HIDDEN
from isotrope.errors import UserError
from isotrope.terms._words import Words
from isotrope.types import NonNegative, Scores


def tsdae(
    logits: Tensor,  # (n, L - 1, W) of the tokens behind the first
    target: Tensor,  # (n, L) token ids
    mask: Tensor,  # (n, L), 0 for padding
) -> Tensor:
    """Cross entropy of each token behind the first, given those before it -> (T,)."""
    by_word = logits.transpose(1, 2)  # (n, W, L - 1), as torch wants it
    words = target[:, 1:]  # (n, L - 1)
    losses = F.cross_entropy(by_word, words, reduction="none")
    is_real = mask[:, 1:].bool()
    return losses[is_real]


@dataclass(eq=False, repr=False)
class TSDAE(StatefulComponent):
    """A decoder rebuilds the whole sentence from the vector of the damaged one. BibTeX:
    wang2021tsdae.

    The decoder, a copy of the encoder that sees no later token, is trained and thrown away; it
    needs the memory of one more model for each width. The vector of the first view stands in the
    place of the first token. In the paper, encoder and decoder share their weights, and attention
    to the vector is added to every layer.
    """

    stage = "terms"
    one_view = True
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        width = token_table(student).embedding_dim
        decoder = cast(Any, deepcopy(language_model(student)))
        self.decoder = decoder
        self.sentence = nn.Linear(context.needed("width"), width, bias=False)
        nn.init.eye_(self.sentence.weight)
        self.words = Words(decoder.config.hidden_size, token_table(decoder))
        self.to(decoder.device)  # `can_decode` runs there, before the whole loss is moved
        if not self.can_decode():
            problem = f"terms.tsdae: a {decoder.config.model_type} cannot be the decoder"
            raise UserError(problem, "choose another backbone, such as BERT", code="no-decoder")
        averaged(self)

    def decode(
        self,
        vectors: Tensor,  # (n, D), in the place of the first token
        before: Tensor,  # (n, L) tokens
    ) -> Tensor:
        """Scores of the next tokens (n, L, W)."""
        table = token_table(self.decoder)
        first = self.sentence(vectors.to(self.sentence.weight.dtype))  # (n, E)
        first = first.unsqueeze(1).to(table.weight.dtype)
        others = table(before[:, 1:])
        states = torch.cat([first, others], dim=1)  # (n, L, E)

        # No token sees a later one.
        count, length = before.shape
        mask = states.new_full((length, length), HIDDEN)
        mask = mask.triu(1).expand(count, 1, length, length)
        result = self.decoder(inputs_embeds=states, attention_mask=mask)
        return self.words(result.last_hidden_state)  # type: ignore[no-any-return]

    def can_decode(self) -> bool:
        """Whether no score depends on later tokens, and every weight has one name, as checkpoints
        need it.
        """
        # Two texts that differ in their last token only.
        ids = torch.tensor([[0, 1, 2], [0, 1, 3]], device=self.sentence.weight.device)
        vectors = ids.new_ones(2, self.sentence.in_features)
        self.eval()
        try:
            with torch.no_grad():
                logits = self.decode(vectors, ids)
        except RuntimeError:  # an architecture that takes no mask of four dimensions
            return False
        self.train()
        first, second = logits[:, :2]  # the scores of words before that token
        if not torch.allclose(first, second, atol=1e-4):
            return False
        addresses = [tensor.data_ptr() for tensor in self.decoder.state_dict().values()]
        return len(set(addresses)) == len(addresses)

    def forward(self, scores: Scores) -> Tensor:
        text = scores.views.readings[0].text
        mask = text["attention_mask"]

        # Some tokenizers pad at the left: real tokens come first here.
        order = (1 - mask).argsort(dim=1, stable=True)
        ids = text["input_ids"].gather(1, order)
        mask = mask.gather(1, order)

        vectors = own_rows(scores.views.stack[0])  # (n, D)
        before = ids[:, :-1]
        logits = self.decode(vectors, before)
        losses = tsdae(logits, ids, mask)  # (T,)
        return self.weight * mean_of_all(losses)
