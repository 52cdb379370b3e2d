"""A loss of sentence-transformers, or of a third party, in the place of an objective: for
baselines.

    loss = "sentence_transformers.sentence_transformer.losses:GISTEmbedLoss"
    loss_options.guide = "before"  # the name of a teacher
    teachers.before.kind = "initial"

The teacher called ``labels``, if there is one, gives the loss its labels: the vectors of the
batch's texts. A third party's class declares ``stage = "loss"``. It is made as ``Class(student,
**options)``.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.components.registry import STAGES, imported_class
from isotrope.contract.context import BuildContext
from isotrope.encoder import load
from isotrope.encoder.adapters import has_adapter
from isotrope.encoder.faults import quiet
from isotrope.encoder.prompts import used_prompt
from isotrope.errors import UserError
from isotrope.objective.passes import TextColumn
from isotrope.text.permutation import derive
from isotrope.types import Batch

DELETED = 0.6  # of a sentence's words: TSDAE Sec. 3
EVERY = 8  # pairs, of which one has equal sentences: CT Sec. 3
LABELS = "labels"  # the name of the teacher whose vectors are the labels
CITED = {
    "GISTEmbedLoss": "solatorio2024gistembed", "ContrastiveTensionLoss": "carlsson2021tension",
    "ContrastiveTensionLossInBatchNegatives": "carlsson2021tension", "DenoisingAutoEncoderLoss": "wang2021tsdae",
    "MultipleNegativesRankingLoss": "henderson2017efficient", "EmbedDistillLoss": "kim2023embeddistill",
}  # fmt: skip


def _texts(columns: list[TextColumn]) -> TextColumn:
    """The one column of texts."""
    if len(columns) > 1:
        raise UserError(
            "this loss reads texts alone, and the data has positives", "leave --positive out"
        )
    return columns[0]


def twice(loss: Any, columns: list[TextColumn], rows: Tensor) -> list[TextColumn]:
    """The columns as they are; texts alone twice, each with its own dropout mask."""
    return columns if len(columns) > 1 else [columns[0], dict(columns[0])]


def once(loss: Any, columns: list[TextColumn], rows: Tensor) -> list[TextColumn]:
    """The texts, which the loss encodes with two models."""
    return [_texts(columns)]


def paired(loss: Any, columns: list[TextColumn], rows: Tensor) -> list[TextColumn]:
    """Each text beside the one before it in the batch; every eighth beside itself."""
    column = _texts(columns)
    own = torch.arange(len(column["input_ids"]), device=column["input_ids"].device)
    other = torch.where(own % EVERY == 0, own, own.roll(1))
    return [dict(column), {k: v[other] if isinstance(v, Tensor) else v for k, v in column.items()}]


def damaged(loss: Any, columns: list[TextColumn], rows: Tensor) -> list[TextColumn]:
    """Each text without most of its words, beside the whole one. Seed and row decide which words."""
    column, corpus, ids = _texts(columns), loss.context.needed("corpus"), rows.tolist()
    texts = corpus.dataset[ids][corpus.columns[0]]
    few = [delete_words(text, derive(loss.seed, row)) for text, row in zip(texts, ids, strict=True)]
    made = loss.model.preprocess(
        few, prompt=used_prompt(loss.model) or None, max_length=loss.max_length
    )
    device = column["input_ids"].device
    return [{k: v.to(device) if isinstance(v, Tensor) else v for k, v in made.items()}, column]


def delete_words(text: str, seed: int) -> str:
    """A text without 60 % of its words; one at least stays. Equal seeds take away the same words."""
    words = text.split()
    draws = np.random.default_rng(seed).random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw >= DELETED]
    return " ".join(kept) or words[int(draws.argmax())]


READ_BY = {  # what a loss reads of one process's batch; all others read `twice`
    "ContrastiveTensionLoss": paired,
    "ContrastiveTensionLossInBatchNegatives": once,
    "DenoisingAutoEncoderLoss": damaged,
}


class OutsideLoss(nn.Module):
    """What a run trains instead of an `Objective`. Weights of the loss, such as a decoder, train
    with the student.

    ``guides`` are models without gradient that the loss holds too. ``teacher``, if there is one,
    gives the loss its labels: row ids (N,) -> (N, T); until the run opens it, it only tells its
    ``width``.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: Any,
        guides: Sequence[SentenceTransformer],
        context: BuildContext,
        seed: int,
        max_length: int,
        teacher: Any = None,
    ) -> None:
        super().__init__()
        self.model, self.inner, self.guides, self.teacher = model, loss, tuple(guides), teacher
        self.context, self.seed, self.max_length, self.step = context, seed, max_length, 0
        self.read = READ_BY.get(type(loss).__name__, twice)

    def forward(self, features: Sequence[TextColumn], labels: Any = None) -> Any:
        """One batch's text columns -> the loss (). ``labels`` are row ids, which the loss itself
        does not see.

        The columns are the data's: texts, positives if any, then hard negatives. A teacher's
        vectors of the texts, (N, T), are the labels. `DistillKLDivLoss` compares a text with
        candidates: here all other texts of the batch, which are encoded once, and its labels are
        the teacher's cosines.
        """
        self.step += self.training
        taught = None if self.teacher is None else self.teacher(Batch(labels, torch.Generator()))
        return self._value(list(features), labels, taught)

    def _value(self, columns: list[TextColumn], rows: Any, taught: Tensor | None) -> Any:
        if taught is None:
            return self.inner(self.read(self, columns, rows), None)
        column = _texts(columns)
        if type(self.inner).__name__ != "DistillKLDivLoss":
            return self.inner([column], taught)
        vectors, shifts = self.model(dict(column))["sentence_embedding"], range(1, len(taught))
        # (N, N - 1)
        cosines = torch.stack([(taught * taught.roll(-by, 0)).sum(dim=-1) for by in shifts], dim=1)
        return self.inner.compute_loss_from_embeddings(
            [vectors, *(vectors.roll(-by, 0) for by in shifts)], cosines
        )

    def train(self, mode: bool = True) -> "OutsideLoss":
        """Training mode, but for the guides."""
        super().train(mode)
        for guide in self.guides:
            guide.eval()
        return self

    def after_step(self) -> None:
        """Nothing: no component waits for an optimizer step."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The student, and what the loss has of its own. What it shares with the student or a guide
        is left out.
        """
        state, owners = super().state_dict(*args, **kwargs), super().state_dict(keep_vars=True)
        known = {
            id(one)
            for part in (self.model, *self.guides)
            for one in part.state_dict(keep_vars=True).values()
        }
        for name, tensor in owners.items():
            if name.startswith("inner.") and id(tensor) in known:
                del state[name]
            known.add(id(tensor))
        return state

    def get_extra_state(self) -> Tensor:
        """Saved with the weights: the number of the step."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the step number from a saved state."""
        self.step = int(state)

    @property
    def has_weights(self) -> bool:
        """Whether the loss trains weights of its own."""
        student = {id(weight) for weight in self.model.parameters()}
        return any(
            id(weight) not in student and weight.requires_grad for weight in self.parameters()
        )

    def rehearse(self, columns: Sequence[TextColumn], rows: Tensor) -> None:
        """Compute the loss of a first batch, before long work. The state does not change."""
        before, taught = {name: value.clone() for name, value in self.state_dict().items()}, None
        if self.teacher is not None:  # it has not read the corpus: random rows of its width
            drawn = torch.randn(len(rows), self.teacher.width, generator=torch.Generator())
            taught = F.normalize(drawn, dim=-1).to(rows.device)
        try:
            with torch.no_grad():
                value = self.train()._value(list(columns), rows, taught)
            if not isinstance(value, dict) and (not isinstance(value, Tensor) or value.ndim):
                raise TypeError("its value is no single number")
        except UserError:
            raise
        except Exception as error:
            problem = (
                f"{type(self.inner).__name__} cannot be computed from these texts ({_line(error)})"
            )
            raise UserError(
                problem, "choose a loss that needs no labels, or correct [loss_options]"
            ) from error
        self.load_state_dict(before, strict=False)


def outside_class(loss: str) -> type[nn.Module]:
    """Import the class of an outside loss."""
    cls = imported_class(loss, "loss")
    path = cls.__module__.split(".")
    own = path[0] == "sentence_transformers" and "losses" in path
    if not issubclass(cls, nn.Module) or not (own or getattr(cls, "stage", "") == "loss"):
        remedy = (
            'name a loss of sentence-transformers; a class of your own must declare stage = "loss"'
        )
        raise UserError(f"loss = {loss!r} is not a loss", remedy)
    return cls


def check_loss(preset: Any) -> None:
    """Check the tables of a preset that stand beside a loss, or its options. Nothing is imported."""
    loss, options = preset.loss, preset.loss_options or {}
    idle = [f"[{stage}]" for stage in STAGES if stage != "teachers" and getattr(preset, stage)]
    idle += [
        f"train.{key}"
        for key in ("dims", "mini_batch_size")
        if getattr(preset.train, key) is not None
    ]
    for label, table in preset.teachers.items():
        one = table == {"kind": "initial"} or (
            table.keys() == {"models"} and len(table["models"]) == 1
        )
        if label != LABELS and not (one and label in options.values()):
            idle.append(
                f"[teachers.{label}], unless it is one model that an option of the loss names,"
            )
    if loss is None:
        idle = ["[loss_options]"] if options else []
    if idle:
        remedy = "leave it out; what a preset inherits goes with NAME = false"
        raise UserError(f"{idle[0]} has no effect with loss = {loss!r}", remedy)


def check_options(loss: str, options: Mapping[str, Any]) -> None:
    """Check the names of a loss's options. Its class is imported."""
    _, *names = inspect.signature(cls := outside_class(loss)).parameters  # without the student
    # A path would be opened past isotrope's own checks of a model's files, and no preset can give
    # another loss.
    known = [name for name in names if not re.fullmatch(r"loss|kwargs|\w*name_or_path", name)]
    if unknown := [key for key in options if key not in known]:
        takes = f"{cls.__name__} takes {', '.join(known) or 'none'}"
        raise UserError(f"loss_options.{unknown[0]} is an unknown key", takes)


def build_outside(
    preset: Any, model: SentenceTransformer, seed: int, context: BuildContext, teacher: Any = None
) -> OutsideLoss:
    """Make a preset's outside loss for this student; its weights are drawn from torch's generator.

    An option that is a teacher's name becomes that model: the student as it is now, or the one that
    the table names.
    """
    options, teachers = preset.loss_options or {}, preset.teachers
    cls, device = outside_class(preset.loss), model.device
    named = {
        key: teachers[name]
        for key, name in options.items()
        if isinstance(name, str) and name in teachers
    }
    guides = {
        key: load(table["models"][0]) if "models" in table else deepcopy(model)
        for key, table in named.items()
    }
    for guide in guides.values():
        guide.eval().requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        with quiet(reports=False):  # every weight of a decoder that the encoder's files lack
            made = cls(model, **{**options, **guides})
    except Exception as error:
        problem = f"{cls.__name__} cannot be made for {preset.encoder.backbone} ({_line(error)})"
        remedy = "correct [loss_options]; a decoder needs a model with the architecture of BERT or RoBERTa"
        raise UserError(
            problem, "leave out [encoder.lora]" if has_adapter(model) else remedy
        ) from error
    whole = OutsideLoss(
        model, made, [*guides.values()], context, seed, preset.train.max_length, teacher
    )
    whole.float().to(device)
    # a decoder that is tied to the student brought the weights of the backbone's files
    model.load_state_dict(before)
    return whole


def cited_by_loss(loss: str | None) -> list[str]:
    """The BibTeX key of a loss, if it is known."""
    name = (loss or "").partition(":")[2]
    return [CITED[name]] if name in CITED else []


def _line(error: Exception) -> str:
    """The first line of what another library says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
