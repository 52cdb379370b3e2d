"""InfoCSE (Wu et al., Findings of EMNLP 2022, Sec. 3).
https://aclanthology.org/2022.findings-emnlp.223
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged, mean_of_all
from isotrope.contract.features import language_model, token_table
from isotrope.contract.layers import Frozen, Hiding
from isotrope.encoder.student import keep_layers
from isotrope.terms._words import Words, own_states, passes_with_gaps
from isotrope.types import Count, Fraction, NonNegative, Scores


def infocse(
    states: Tensor,  # (n, L, H) of the frozen model
    first: Tensor,  # (n, H) of the student
    mask: Tensor,  # (n, L), 0 for padding
) -> Tensor:
    """What the new layers read (n, L, H): the frozen states, but for the student's at each first
    real token.
    """
    first = first.unsqueeze(1)  # (n, 1, H)
    first_columns = mask.argmax(dim=1)  # (n,)
    places = first_columns[:, None, None].expand_as(first)
    return states.scatter(1, places, first)


@dataclass(eq=False, repr=False)
class InfoCSE(StatefulComponent):
    """With the student's first token, say the words that are hidden from a frozen model. BibTeX:
    wu2022infocse.

    The frozen model is the first half of the student's layers, as they were before training. It
    reads a text with gaps, where each token is hidden with the probability ``masked``, the student
    the whole one. The new ``layers`` read both, and are thrown away. The gradient reaches the
    student through its first token alone.
    """

    stage = "terms"
    one_view = True
    token_states = True
    masked: Fraction = 0.4
    layers: Count = 2
    weight: NonNegative = 1e-5

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        token_table(student)  # there is one
        model: Any = language_model(student)
        config = model.config
        width = config.hidden_size
        # The frozen model: the first half of the student.
        half = math.ceil(config.num_hidden_layers / 2)
        copy = SentenceTransformer(modules=[deepcopy(student[0])])
        first: Any = keep_layers(copy, half, "first")[0].auto_model
        self.frozen = Frozen(first)
        self.hiding = Hiding(context.needed("tokenizer"), self.masked)

        layer = nn.TransformerEncoderLayer(
            d_model=width,
            nhead=config.num_attention_heads,
            dim_feedforward=4 * width,
            dropout=0.0,
            activation=F.gelu,
            batch_first=True,
        )
        self.network = nn.TransformerEncoder(layer, self.layers, enable_nested_tensor=False)
        self.words = Words(width, token_table(first))
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        losses = []
        for _, reading, hidden, shown in passes_with_gaps(scores.views, self.hiding):
            # The student's first real token.
            states = own_states(reading, self.words.layer.in_features, "infocse")
            sentences = torch.arange(len(states))
            first_columns = reading.read["attention_mask"].argmax(dim=1)
            first = states[sentences, first_columns]  # (n, H)

            # The hidden words.
            filled = self.filled(first, shown, reading.text["attention_mask"])
            logits = self.words(filled[hidden])  # (T, W)
            targets = reading.text["input_ids"][hidden]
            word_losses = F.cross_entropy(logits, targets, reduction="none")
            losses.append(word_losses)
        return self.weight * mean_of_all(torch.cat(losses))

    def filled(
        self,
        first: Tensor,  # (n, H): the student's states of first tokens
        shown: Tensor,  # (n, L): the text with gaps
        mask: Tensor,  # (n, L)
    ) -> Tensor:
        """What the new layers make of the gaps: states (n, L, H)."""
        with torch.no_grad():
            states = self.frozen(input_ids=shown, attention_mask=mask).last_hidden_state
        combined = infocse(states, first.to(states), mask)
        is_padding = mask == 0
        states = self.network(combined, src_key_padding_mask=is_padding)
        return states  # type: ignore[no-any-return]
