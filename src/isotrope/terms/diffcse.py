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
from isotrope.contract.features import embeddings_changed, language_model, token_table
from isotrope.contract.layers import Frozen, Hiding
from isotrope.encoder.faults import quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.terms._words import passes_with_gaps
from isotrope.types import Fraction, NonNegative, Scores


def diffcse(logits: Tensor, replaced: Tensor, mask: Tensor) -> Tensor:
    """Binary cross entropy of each real token (T,): logits (n, L), replaced (n, L) bool, mask (n,
    L), 0 for padding.
    """
    losses = F.binary_cross_entropy_with_logits(logits, replaced.to(logits), reduction="none")
    return losses[mask.bool()]


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
            ids = reading.text["input_ids"]
            mask = reading.text["attention_mask"]
            edited, losses = self.editor(ids, mask, hidden, shown)
            vectors = own_rows(scores.views.stack[number])  # (n, D)
            states = self.states({**reading.text, "input_ids": edited}, vectors)
            logits = self.detector(states)[..., 0]
            detector_losses.append(diffcse(logits, edited != ids, mask))
            generator_losses.append(losses)
        loss = mean_of_all(torch.cat(detector_losses))
        if len(self.editor.learnt):
            loss = loss + mean_of_all(torch.cat(generator_losses))
        return self.weight * loss

    def states(self, text: dict[str, Any], vectors: Tensor) -> Tensor:
        """The second encoder's states (n, L, D), with the vectors (n, D) where its embedding layer
        had first tokens.
        """
        mask = text["attention_mask"].bool()

        def begin(states: Tensor) -> Tensor:
            states = states.clone()
            first = vectors.to(states)
            if states.shape[:2] == mask.shape:
                first_columns = mask.long().argmax(dim=1)  # (n,)
                states[torch.arange(len(mask)), first_columns] = first
            else:  # packed, (1, T, d): real tokens one behind another
                lengths = mask.sum(dim=1)
                states[0, lengths.cumsum(dim=0) - lengths] = first
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
        self, ids: Tensor, mask: Tensor, hidden: Tensor, shown: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Token ids (n, L) with its words for those that are ``hidden``, and its own losses (T,).
        ``shown`` (n, L) is what it reads.
        """
        learns = len(self.learnt) > 0 and torch.is_grad_enabled()
        with torch.set_grad_enabled(learns):
            logits = self.frozen(input_ids=shown, attention_mask=mask).logits[hidden]  # (T, W)
        edited = ids.masked_scatter(hidden, logits.detach().argmax(dim=-1))
        return edited, F.cross_entropy(logits, ids[hidden], reduction="none")


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
