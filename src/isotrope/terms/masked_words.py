"""The masked language model beside the contrast: say the words that are hidden from the student (DeCLUTR).

Giorgi et al., ACL 2021, Sec. 3, after Devlin et al., NAACL 2019. https://aclanthology.org/2021.acl-long.72
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from isotrope.encoder.context import BuildContext
from isotrope.encoder.distributed import averaged, mean_of_all
from isotrope.encoder.features import language_model, token_table
from isotrope.errors import UserError
from isotrope.terms._words import Words, hidden_words
from isotrope.types import NonNegative, Scores


def changed(
    text: Tensor,  # (n, L) token ids before the token steps
    read: Tensor,  # (n, L) behind them
    mask: Tensor,  # (n, L), 0 for padding
) -> Tensor:
    """The tokens that the student did not see (n, L) bool."""
    return (text != read) & mask.bool()


@dataclass(frozen=True)
class MaskedWords:
    """-log of the probability of each word that the token step ``hide`` has changed, mean. BibTeX: giorgi2021declutr.

    It reads the first pass. A hidden word that is shown as it is does not count. The layer that says words is new, and
    thrown away after training; the table of words is the student's.
    """

    stage = "terms"
    one_view = True
    token_states = True
    weight: NonNegative = 1.0

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its layer.

        Raises:
            UserError: the student has no table of tokens.
        """
        return averaged(_Saying(self, context))


class _Saying(nn.Module):
    one_view = True
    token_states = True

    def __init__(self, term: MaskedWords, context: BuildContext) -> None:
        super().__init__()
        student, self.term = context.needed("student"), term
        table, model = token_table(student), language_model(student)
        config: Any = getattr(model, "config", None)
        self.words = Words(config.hidden_size, table)

    def forward(self, scores: Scores) -> Tensor:
        reading = scores.views.readings[0]
        text, read, states = reading.text["input_ids"], reading.read["input_ids"], reading.states
        if states is None or states.shape[-1] != self.words.layer.in_features:
            problem = "masked_words reads token states of the encoder's own width, and this model has others"
            raise UserError(problem, "choose a model without a layer between its encoder and its pooling")
        if text.shape != read.shape:
            problem = "masked_words finds hidden words by their places, and a token step moves words"
            raise UserError(problem, "take the token step hide alone in the first pass")
        hidden = changed(text, read, reading.text["attention_mask"])
        return self.term.weight * mean_of_all(hidden_words(self.words(states[hidden]), text[hidden]))
