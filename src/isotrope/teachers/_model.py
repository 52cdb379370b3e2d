"""A teacher's encoder: any model, in evaluation mode, without gradient, with its own tokenizer, pooling and length.

It is never a submodule of the objective: a trainer would take it for the student.
"""

# Annotations are evaluated here and now (no __future__ import), so that subclasses in other files inherit types.

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.encoder import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError

INITIAL = "initial"  # the name of the student as it was before training
BATCH = 64  # sentences a forward pass

Pooling = Literal[("own", *LAYERS)]  # type: ignore[valid-type]
TRAIN = "train"  # the length that the student reads in training
Length = Annotated[int, Field(ge=0)] | Literal["train"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class TeacherModel:
    """A model as a preset names it: a folder, a hub name, ``isotrope/tiny``, or ``initial``."""

    model: str
    pooling: Pooling = "own"  # as in isotrope.load; "own": as the model declares it, mean for a bare encoder
    max_length: Length = 0  # tokens; 0: the model's own; "train": at most what the student reads in training
    precision: Precision = "fp32"  # of the forward pass; embeddings and scores are fp32 always
    prompt: str | None = None  # words before every text; None: the model's default prompt

    def load(self, context: BuildContext) -> "TeacherEncoder":
        """Load it, or copy the student."""
        pooling = None if self.pooling == "own" else self.pooling
        max_length = None if self.max_length in (0, TRAIN) else int(self.max_length)
        if self.model != INITIAL:
            loaded = load(self.model, pooling, max_length=max_length, prompt=self.prompt)
            return TeacherEncoder(self._cut(loaded, context), self)
        for name, value in (("pooling", pooling), ("prompt", self.prompt)):
            if value is not None:
                raise UserError(
                    f"{name} = {value!r} for the teacher 'initial'", "leave it out: it is the student's own"
                )
        encoder = deepcopy(context.needed("student"))  # which the student's training does not reach
        encoder.max_seq_length = max_length or encoder.max_seq_length
        return TeacherEncoder(self._cut(encoder, context), self)

    def width_in(self, context: BuildContext) -> int:
        """T, which the loaded model tells. For a term with a projection, which is made before the corpus is encoded."""
        return self.load(context).dim

    def _cut(self, encoder: SentenceTransformer, context: BuildContext) -> SentenceTransformer:
        if self.max_length == TRAIN:
            limit = int(context.needed("max_length"))
            encoder.max_seq_length = min(limit, encoder.max_seq_length or limit)
        return encoder


class TeacherEncoder:
    """Sentences -> unit rows in fp32, in the CPU's memory."""

    def __init__(self, encoder: SentenceTransformer, model: TeacherModel) -> None:
        self.encoder = encoder.float().eval().requires_grad_(False)
        self.name, self.bf16 = model.model, model.precision == "bf16"
        self.dim = int(encoder.get_embedding_dimension() or 0)

    def __call__(self, texts: list[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Sentences (n,) -> (n, T). ``progress`` as in `vectors_of`."""
        # The run's own autocast must not reach in here: half precision makes ties, and a ranking sees them.
        with torch.autocast(self.encoder.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            try:
                rows = vectors_of(self.encoder, texts, batch_size=BATCH, progress=progress)
            except UserError as error:
                raise UserError(f"the teacher {self.name}: {error.problem}", error.remedy) from error
        return F.normalize(torch.from_numpy(rows), dim=-1)

    def key(self) -> str:
        """Checksum of all that decides the embeddings, the precision among it."""
        return model_checksum(self.encoder, self.bf16)
