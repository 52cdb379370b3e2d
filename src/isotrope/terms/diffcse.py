"""DiffCSE: from a sentence's vector, tell which of its words a language model has replaced.

Chuang et al., NAACL 2022, Sec. 3. https://aclanthology.org/2022.naacl-main.311
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
from isotrope.contract.hiding import noise_of_rows
from isotrope.errors import UserError
from isotrope.terms._generator import Generator
from isotrope.text.permutation import derive
from isotrope.types import Fraction, NonNegative, Scores


def diffcse(logits: Tensor, replaced: Tensor, mask: Tensor) -> Tensor:
    """Binary cross entropy of each real token (T,): logits (n, L), replaced (n, L) bool, mask (n, L), 0 for padding."""
    return F.binary_cross_entropy_with_logits(logits, replaced.to(logits), reduction="none")[mask.bool()]


@dataclass(frozen=True)
class DiffCSE:
    """A vector that tells small changes apart. BibTeX: chuang2022diffcse.

    A second encoder, trained from the student's start, reads the changed text. It gets the view's vector in the place
    of the first token. It is thrown away after training.

    Attributes:
        generator: a masked language model with the student's vocabulary, which replaces words and stays as it is. If
            its files hold no layers that say words, new ones are learnt beside.
        masked: the probability that a token is hidden from the generator.
    """

    stage = "terms"
    one_view = True
    generator: str = "isotrope/tiny"
    masked: Fraction = 0.3
    weight: NonNegative = 0.005

    def build(self, context: BuildContext) -> nn.Module:
        """The term with its generator and its second encoder."""
        return averaged(_Detecting(self, context))


class _Detecting(nn.Module):
    one_view = True
    second: Any

    def __init__(self, term: DiffCSE, context: BuildContext) -> None:
        super().__init__()
        student, self.term = context.needed("student"), term
        width = token_table(student).embedding_dim
        if width != context.needed("width") or not isinstance(
            getattr(language_model(student), "embeddings", None), nn.Module
        ):
            problem = f"diffcse puts a vector of {context.width} dimensions among token embeddings of {width}"
            raise UserError(problem, "choose a model such as BERT, without a layer behind its pooling and without dims")
        self.second = deepcopy(language_model(student))
        self.detector = nn.Linear(width, 1)
        self.generator = Generator(term.generator, context.needed("tokenizer"), term.masked)

    def forward(self, scores: Scores) -> Tensor:
        views = scores.views
        rows = own_rows(views.batch.rows).tolist()
        seed = views.batch.generator.initial_seed()  # of the step, equal on all processes
        told, said = [], []  # of the second encoder; of the generator's new layers
        for number, reading in views.readings.items():
            ids, mask = reading.text["input_ids"], reading.text["attention_mask"]
            noise = noise_of_rows(mask, [derive(derive(seed, number), row) for row in rows])
            edited, losses = self.generator(ids, mask, noise)
            vectors = own_rows(views.stack[number])  # (n, D)
            logits = self.detector(self.states({**reading.text, "input_ids": edited}, vectors))[..., 0]
            told.append(diffcse(logits, edited != ids, mask))
            said.append(losses)
        loss = mean_of_all(torch.cat(told))
        return self.term.weight * (loss + mean_of_all(torch.cat(said)) if len(self.generator.learnt) else loss)

    def states(self, text: dict[str, Any], vectors: Tensor) -> Tensor:
        """The second encoder's states (n, L, D), with the vectors (n, D) where its embedding layer had first tokens."""
        mask = text["attention_mask"].bool()
        lengths = mask.sum(dim=1)

        def begin(_: nn.Module, __: Any, states: Tensor) -> Tensor:
            states, vectors_ = states.clone(), vectors.to(states)
            if states.shape[:2] == mask.shape:
                states[torch.arange(len(mask)), mask.long().argmax(dim=1)] = vectors_
            else:  # packed, (1, T, d): real tokens one behind another
                states[0, lengths.cumsum(dim=0) - lengths] = vectors_
            return states

        hook = self.second.embeddings.register_forward_hook(begin)
        try:
            read = {name: text[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in text}
            return self.second(**read).last_hidden_state  # type: ignore[no-any-return]
        finally:
            hook.remove()
