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
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isotrope.encoder.context import BuildContext
from isotrope.encoder.distributed import averaged, mean_of_all, own_rows
from isotrope.encoder.features import language_model, token_table
from isotrope.encoder.load import locate
from isotrope.encoder.no_bars import without_reports
from isotrope.errors import UserError
from isotrope.text.permutation import derive
from isotrope.types import Fraction, NonNegative, Reading, Scores

AS_MASK, AS_OTHER = 0.8, 0.9  # of the hidden tokens 80 % are shown as [MASK], 10 % as another, 10 % as they are: BERT's


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
        """The term with its generator and its second encoder.

        Raises:
            UserError: the student or the generator does not fit.
        """
        return averaged(_Detecting(self, context))


class _Detecting(nn.Module):
    one_view = True
    second: Any

    def __init__(self, term: DiffCSE, context: BuildContext) -> None:
        super().__init__()
        student, tokenizer, self.term = context.needed("student"), context.needed("tokenizer"), term
        width = token_table(student).embedding_dim
        if width != context.needed("width") or not isinstance(
            getattr(language_model(student), "embeddings", None), nn.Module
        ):
            problem = f"diffcse puts a vector of {context.width} dimensions among token embeddings of {width}"
            raise UserError(problem, "choose a model such as BERT, without a layer behind its pooling and without dims")
        self.second = deepcopy(language_model(student))
        self.detector = nn.Linear(width, 1)
        # In a tuple: what never changes is not for a checkpoint. Layers that learn are.
        self.frozen, learnt = _generator(term.generator, tokenizer)
        self.learnt = nn.ParameterList(learnt)
        self.mask_id, self.words = tokenizer.mask_token_id, len(tokenizer)
        self.register_buffer("special", torch.tensor(tokenizer.all_special_ids), persistent=False)

    def _apply(self, *args: Any, **kwargs: Any) -> _Detecting:
        """To another device or precision, with the generator."""
        self.frozen[0]._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return super()._apply(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]

    def forward(self, scores: Scores) -> Tensor:
        views = scores.views
        rows = own_rows(views.batch.rows).tolist()
        seed = views.batch.generator.initial_seed()  # of the step, equal on all processes
        told, said = [], []  # of the second encoder; of the generator's new layers
        for number, reading in views.readings.items():
            noise = _noise(reading, [derive(derive(seed, number), row) for row in rows])
            ids, mask = reading.text["input_ids"], reading.text["attention_mask"]
            edited, losses = self.edit(ids, mask, noise)
            vectors = own_rows(views.stack[number])  # (n, D)
            logits = self.detector(self.states({**reading.text, "input_ids": edited}, vectors))[..., 0]
            told.append(diffcse(logits, edited != ids, mask))
            said.append(losses)
        loss = mean_of_all(torch.cat(told))
        return self.term.weight * (loss + mean_of_all(torch.cat(said)) if len(self.learnt) else loss)

    def edit(self, ids: Tensor, mask: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids (n, L), with what the generator says for those that it cannot see; and its own losses (T,)."""
        special = torch.isin(ids, self.get_buffer("special"))
        hidden = (noise[..., 0] < self.term.masked) & mask.bool() & ~special  # (n, L)
        other = torch.where(noise[..., 1] < AS_OTHER, (noise[..., 2] * self.words).long(), ids)
        shown = torch.where(hidden, torch.where(noise[..., 1] < AS_MASK, self.mask_id, other), ids)
        with torch.set_grad_enabled(len(self.learnt) > 0 and torch.is_grad_enabled()):
            logits = self.frozen[0](input_ids=shown, attention_mask=mask).logits[hidden]  # (T, W)
        edited = ids.masked_scatter(hidden, logits.detach().argmax(dim=-1))
        return edited, F.cross_entropy(logits, ids[hidden], reduction="none")

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


def _noise(reading: Reading, seeds: list[int]) -> Tensor:
    """Uniform (n, L, 3); a sentence's numbers depend on its seed alone, not on the padding or the process."""
    mask = reading.text["attention_mask"].bool().cpu()
    noise = torch.ones(*mask.shape, 3)
    for row, real, seed in zip(noise, mask, seeds, strict=True):
        row[real] = torch.rand(int(real.sum()), 3, generator=torch.Generator().manual_seed(seed))
    return noise.to(reading.text["input_ids"].device)


def _generator(name: str, tokenizer: Any) -> tuple[tuple[nn.Module], list[nn.Parameter]]:
    """The generator, in evaluation mode, and the weights of its new layers, which alone can learn.

    Raises:
        UserError: there is none of that name, it is no masked language model, or it has other words.
    """
    where = locate(name)
    try:
        with without_reports():
            words = AutoTokenizer.from_pretrained(where).get_vocab()
            model, report = AutoModelForMaskedLM.from_pretrained(where, output_loading_info=True, use_safetensors=True)
    except (OSError, ValueError, KeyError) as error:
        line = str(error).strip().partition("\n")[0]
        problem = f"diffcse.generator = {name!r} is no masked language model ({line})"
        raise UserError(problem, "name a model such as distilbert-base-uncased, or its folder") from error
    if words != tokenizer.get_vocab() or tokenizer.mask_token_id is None:
        problem = f"diffcse.generator = {name!r} and the student read different words, or have no word [MASK]"
        raise UserError(problem, "choose a generator with the student's tokenizer, such as a smaller model of its kind")
    new = set(report["missing_keys"])
    model.float().eval().requires_grad_(False)
    table = model.get_input_embeddings().weight  # which the last layer shares
    return (model,), [w.requires_grad_(True) for key, w in model.named_parameters() if key in new and w is not table]
