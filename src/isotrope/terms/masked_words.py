"""The masked language model of DeCLUTR (Giorgi et al., ACL 2021).
https://aclanthology.org/2021.acl-long.72
"""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged, mean_of_all
from isotrope.contract.features import language_model, token_table
from isotrope.terms._words import Words, hidden_in, own_states
from isotrope.types import NonNegative, Scores, Whole


@dataclass(eq=False, repr=False)
class MaskedWords(StatefulComponent):
    """-log of the probability of each word that the token step ``hide`` has changed, mean. BibTeX:
    giorgi2021declutr.

    One shown as it is does not count. The layer that says words is new and thrown away, their table
    the student's.
    """

    stage = "terms"
    one_view = True
    token_states = True
    view: Whole = 0  # the pass whose words are hidden
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        model: Any = language_model(student)
        self.words = Words(model.config.hidden_size, token_table(student))
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        hidden = hidden_in(scores.views, self.view, "masked_words")
        reading = scores.views.readings[self.view]
        states = own_states(reading, self.words.layer.in_features, "masked_words")
        logits = self.words(states[hidden])  # (T, W)
        words = reading.text["input_ids"][hidden]  # (T,)
        losses = F.cross_entropy(logits, words, reduction="none")
        return self.weight * mean_of_all(losses)
