"""TSDAE: a decoder rebuilds the whole sentence from the vector of the damaged one.

Wang et al., Findings of EMNLP 2021, Sec. 3 and Eq. 1. https://arxiv.org/abs/2104.06979. Its decoder is the encoder
again. Ours is small and works with every encoder that has a table of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.encoder.distributed import averaged, mean_of_all, own_rows
from isotrope.terms._decoder import Decoder
from isotrope.types import Count, NonNegative, Scores


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
    one_view = True

    def __init__(self, term: TSDAE, context: BuildContext) -> None:
        super().__init__()
        self.term, self.decoder = term, Decoder(term.layers, context)

    def forward(self, scores: Scores) -> Tensor:
        text = scores.views.readings[0].text
        order = (1 - text["attention_mask"]).argsort(dim=1, stable=True)  # some tokenizers pad at the left
        ids, mask = (text[name].gather(1, order) for name in ("input_ids", "attention_mask"))
        vectors = own_rows(scores.views.stack[0])  # (n, D)
        return self.term.weight * mean_of_all(tsdae(self.decoder(vectors[:, None], ids[:, :-1]), ids, mask))
