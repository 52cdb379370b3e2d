"""DiffCSE (Chuang et al., NAACL 2022, Sec. 3). https://aclanthology.org/2022.naacl-main.311"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import averaged, mean_of_all, own_rows
from isotrope.contract.features import (
    TextColumn,
    embeddings_changed,
    language_model,
    token_table,
)
from isotrope.contract.layers import Frozen, Hiding
from isotrope.encoder.faults import quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.terms._words import passes_with_gaps
from isotrope.types import Fraction, NonNegative, Scores


def diffcse(
    logits: Tensor,  # (n, L)
    replaced: Tensor,  # (n, L) bool
    mask: Tensor,  # (n, L), 0 for padding
) -> Tensor:
    """Binary cross entropy of each real token -> (T,)."""
    target = replaced.to(logits)
    losses = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    is_real = mask.bool()
    return losses[is_real]


@dataclass(eq=False, repr=False)
class DiffCSE(StatefulComponent):
    """Tell from a sentence's vector which of its words a language model replaced. BibTeX:
    chuang2022diffcse.

    A second encoder, trained from the student's start and then thrown away, reads the changed text,
    with the view's vector in the place of the first token. The ``generator``, which replaces words,
    stays as it is. If its files hold no layers that say words, new ones are learnt beside.
    """

    stage = "terms"
    one_view = True
    generator: str = "isotrope/tiny"  # a masked language model with the student's vocabulary
    masked: Fraction = 0.3  # the probability that a token is hidden from the generator
    weight: NonNegative = 0.005

    def begin(self, context: BuildContext) -> None:
        student = context.needed("student")
        encoder = language_model(student)
        width = token_table(student).embedding_dim
        has_embeddings = isinstance(getattr(encoder, "embeddings", None), nn.Module)
        if width != context.needed("width") or not has_embeddings:
            problem = (
                f"diffcse puts a vector of {context.width} dimensions among token embeddings"
                f" of {width}"
            )
            remedy = (
                "choose a model such as BERT, without a layer after its pooling and without dims"
            )
            raise UserError(problem, remedy, code="no-place-for-a-vector")
        self.second: Any = deepcopy(encoder)
        self.detector = nn.Linear(width, 1)
        self.editor = _Generator(self.generator, context.needed("tokenizer"), self.masked)
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        detector_losses = []
        generator_losses = []  # of its new layers
        for number, reading, hidden, shown in passes_with_gaps(scores.views, self.editor.hiding):
            # The generator replaces words.
            ids = reading.text["input_ids"]
            mask = reading.text["attention_mask"]
            edited, losses = self.editor(ids, mask, hidden, shown)
            generator_losses.append(losses)

            # The second encoder tells which, with the sentence's vector.
            vectors = own_rows(scores.views.stack[number])  # (n, D)
            states = self.states({**reading.text, "input_ids": edited}, vectors)
            logits = self.detector(states).squeeze(-1)  # (n, L)
            losses = diffcse(logits, edited != ids, mask)
            detector_losses.append(losses)

        loss = mean_of_all(torch.cat(detector_losses))
        if len(self.editor.learnt):
            loss = loss + mean_of_all(torch.cat(generator_losses))
        return self.weight * loss

    def states(
        self,
        text: TextColumn,
        vectors: Tensor,  # (n, D)
    ) -> Tensor:
        """The second encoder's states (n, L, D), with the vectors where its embedding layer had
        first tokens.
        """
        mask = text["attention_mask"].bool()

        def begin(states: Tensor) -> Tensor:
            states = states.clone()
            first = vectors.to(states)
            if states.shape[:2] == mask.shape:
                sentences = torch.arange(len(mask))
                first_columns = mask.long().argmax(dim=1)  # (n,)
                states[sentences, first_columns] = first
            else:  # packed, (1, T, d): real tokens one behind another
                lengths = mask.sum(dim=1)
                beginnings = lengths.cumsum(dim=0) - lengths
                states[0, beginnings] = first
            return states

        names = ("input_ids", "attention_mask", "token_type_ids")
        features = {name: text[name] for name in names if name in text}
        with embeddings_changed(self.second, begin):
            return self.second(**features).last_hidden_state  # type: ignore[no-any-return]


class _Generator(nn.Module):
    """A masked language model by name, which replaces words of a text."""

    def __init__(self, name: str, tokenizer: Any, ratio: float) -> None:
        super().__init__()
        words, model, missing_keys = _load_language_model(name)
        if words != tokenizer.get_vocab():
            problem = f"diffcse.generator = {name!r} and the student read different words"
            remedy = "choose one with the student's tokenizer, such as a smaller model of its kind"
            raise UserError(problem, remedy, code="another-vocabulary")
        self.frozen = Frozen(model)
        self.hiding = Hiding(tokenizer, ratio)
        # Weights that the files lack are learnt, and saved. The last layer shares the table.
        table = model.get_input_embeddings().weight
        self.learnt = nn.ParameterList()
        for key, weight in model.named_parameters():
            if key in missing_keys and weight is not table:
                self.learnt.append(weight.requires_grad_(True))

    def forward(
        self,
        ids: Tensor,  # (n, L)
        mask: Tensor,  # (n, L)
        hidden: Tensor,  # (n, L) bool
        shown: Tensor,  # (n, L): what it reads
    ) -> tuple[Tensor, Tensor]:
        """Token ids (n, L) with its words for those that are hidden, and its own losses (T,)."""
        learns = len(self.learnt) > 0 and torch.is_grad_enabled()
        with torch.set_grad_enabled(learns):
            result = self.frozen(input_ids=shown, attention_mask=mask)
            logits = result.logits[hidden]  # (T, W)
        words = logits.detach().argmax(dim=-1)  # (T,)
        edited = ids.masked_scatter(hidden, words)
        losses = F.cross_entropy(logits, ids[hidden], reduction="none")
        return edited, losses


def _load_language_model(name: str) -> tuple[dict[str, int], Any, set[str]]:
    """The vocabulary of a masked language model, the model, and the weights that its files lack."""
    folder = locate(name)
    try:
        with quiet(reports=False):
            words = AutoTokenizer.from_pretrained(folder).get_vocab()
            model, report = AutoModelForMaskedLM.from_pretrained(
                folder, output_loading_info=True, use_safetensors=True
            )
    except (OSError, ValueError, KeyError) as error:
        line = str(error).strip().partition("\n")[0]
        problem = f"diffcse.generator = {name!r} is no masked language model ({line})"
        remedy = "name a model such as distilbert-base-uncased, or its folder"
        raise UserError(problem, remedy, code="no-generator") from error
    return words, model, set(report["missing_keys"])
