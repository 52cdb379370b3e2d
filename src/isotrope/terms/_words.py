"""The words that a language model puts in gaps (Devlin et al., NAACL 2019, Sec. 3.1)."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.distributed import own_rows
from isotrope.contract.layers import Hiding, noise_of_rows
from isotrope.errors import UserError
from isotrope.text.permutation import derive
from isotrope.types import Reading, Views


class PassWithGaps(NamedTuple):
    """A pass of which some tokens are hidden."""

    number: int
    reading: Reading
    hidden: Tensor  # (n, L) bool
    shown: Tensor  # (n, L) token ids


def passes_with_gaps(views: Views, hiding: Hiding) -> Iterator[PassWithGaps]:
    """Each pass, with some of its tokens hidden.

    What is hidden in a row depends on the step's seed and the row alone, so it is equal on all
    processes.
    """
    step_seed = views.batch.generator.initial_seed()
    row_ids = own_rows(views.batch.rows).tolist()
    for number, reading in views.readings.items():
        pass_seed = derive(step_seed, number)
        seeds = [derive(pass_seed, row_id) for row_id in row_ids]

        ids = reading.text["input_ids"]
        mask = reading.text["attention_mask"]
        noise = noise_of_rows(mask, seeds)  # (n, L, 3)
        hidden, shown = hiding(ids, mask, noise)
        yield PassWithGaps(number, reading, hidden, shown)


def hidden_in(views: Views, number: int, term: str) -> Tensor:
    """The tokens that token steps have changed in a pass (n, L) bool. One that is shown as it is,
    is not hidden.
    """
    views.named([number], f"the view of terms.{term}")
    reading = views.readings[number]
    before = reading.text["input_ids"]
    after = reading.read["input_ids"]
    if before.shape != after.shape:
        problem = f"{term} finds hidden words by their places, and a token step moves words"
        remedy = f"leave in pass {number} only steps that hide words, such as tokens.hide"
        raise UserError(problem, remedy, code="words-move")
    is_real = reading.text["attention_mask"].bool()
    changed: Tensor = (before != after) & is_real
    return changed


def own_states(reading: Reading, width: int, term: str) -> Tensor:
    """The states (n, L, H) of a pass, of the encoder's own width H."""
    states = reading.states
    if states is None or states.shape[-1] != width:
        problem = f"{term} reads token states of the encoder's own width, and this model has others"
        remedy = "choose a model without a layer between its encoder and its pooling"
        raise UserError(problem, remedy, code="no-token-states")
    return states


class Words(nn.Module):
    """States (…, H) -> scores of the words (…, W): a new layer and norm, then a table of words that
    it only reads.
    """

    def __init__(self, width: int, table: nn.Embedding) -> None:
        super().__init__()
        self.table = (table,)  # in a tuple: it is saved elsewhere
        words, narrow = table.weight.shape
        self.layer = nn.Linear(width, narrow)
        self.norm = nn.LayerNorm(narrow)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, states: Tensor) -> Tensor:
        states = states.to(self.bias.dtype)
        states = self.norm(F.gelu(self.layer(states)))  # (…, E)
        (table,) = self.table
        words = table.weight.to(states.dtype)  # (W, E)
        return states @ words.T + self.bias
