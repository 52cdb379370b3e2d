"""What an outside loss reads of a batch: the data's columns, or for three classes something made of its texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.encoder.prompts import used_prompt
from isotrope.errors import UserError
from isotrope.objective.passes import TextColumn
from isotrope.text.permutation import derive
from isotrope.types import Batch, Teacher

DELETED = 0.6  # of a sentence's words: TSDAE Sec. 3
EVERY = 8  # pairs, of which one has equal sentences: CT Sec. 3


@dataclass(frozen=True, slots=True)
class LossInput:
    """One process's batch."""

    columns: list[TextColumn]  # the data's: texts, positives if any, then hard negatives
    rows: Tensor  # (N,) row ids in the corpus
    model: SentenceTransformer
    context: BuildContext  # whose corpus has the texts
    seed: int
    max_length: int  # tokens a text

    @property
    def texts(self) -> TextColumn:
        """The one column of texts."""
        if len(self.columns) > 1:
            raise UserError("this loss reads texts alone, and the data has positives", "leave --positive out")
        return self.columns[0]


def twice(batch: LossInput) -> list[TextColumn]:
    """The columns as they are; texts alone twice, each with its own dropout mask."""
    return batch.columns if len(batch.columns) > 1 else [batch.columns[0], dict(batch.columns[0])]


def once(batch: LossInput) -> list[TextColumn]:
    """The texts, which the loss encodes with two models."""
    return [batch.texts]


def paired(batch: LossInput) -> list[TextColumn]:
    """Each text beside the one before it in the batch; every eighth beside itself."""
    column = batch.texts
    own = torch.arange(len(column["input_ids"]), device=column["input_ids"].device)
    other = torch.where(own % EVERY == 0, own, own.roll(1))
    return [dict(column), {k: v[other] if isinstance(v, Tensor) else v for k, v in column.items()}]


def damaged(batch: LossInput) -> list[TextColumn]:
    """Each text without most of its words, beside the whole one. Seed and row decide which words."""
    column, corpus = batch.texts, batch.context.needed("corpus")
    rows = batch.rows.tolist()
    texts = corpus.dataset[rows][corpus.columns[0]]
    few = [delete_words(text, derive(batch.seed, row)) for text, row in zip(texts, rows, strict=True)]
    made = batch.model.preprocess(few, prompt=used_prompt(batch.model) or None, max_length=batch.max_length)
    device = column["input_ids"].device
    return [{k: v.to(device) if isinstance(v, Tensor) else v for k, v in made.items()}, column]


def delete_words(text: str, seed: int) -> str:
    """A text without 60 % of its words; one at least stays. Equal seeds take away the same words."""
    words = text.split()
    draws = np.random.default_rng(seed).random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw >= DELETED]
    return " ".join(kept) or words[int(draws.argmax())]


def taught_loss(loss: Any, batch: LossInput, teacher: Teacher) -> Any:
    """The value of a loss whose labels are a teacher's vectors of the texts: (N, T).

    `DistillKLDivLoss` compares a text with candidates. Here these are all other texts of the batch, which are encoded
    once; its labels are the teacher's cosines.
    """
    column, taught = batch.texts, teacher(Batch(batch.rows, torch.Generator()))
    if type(loss).__name__ != "DistillKLDivLoss":
        return loss([column], taught)
    vectors, shifts = batch.model(dict(column))["sentence_embedding"], range(1, len(taught))
    cosines = torch.stack([(taught * taught.roll(-by, 0)).sum(dim=-1) for by in shifts], dim=1)  # (N, N - 1)
    return loss.compute_loss_from_embeddings([vectors, *(vectors.roll(-by, 0) for by in shifts)], cosines)


READ_BY: dict[str, Callable[[LossInput], list[TextColumn]]] = {  # all others read `twice`
    "ContrastiveTensionLoss": paired,
    "ContrastiveTensionLossInBatchNegatives": once,
    "DenoisingAutoEncoderLoss": damaged,
}
