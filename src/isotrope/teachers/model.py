"""A model as a teacher: encoded once, or with every batch; and the student as it was before
training.
"""

from dataclasses import dataclass

from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.teachers._model import (
    INITIAL,
    FunctionTeacher,
    Length,
    Precision,
    TeacherModel,
    encoded_once,
)
from isotrope.types import Batch, Teacher


class Cached(TeacherModel):
    """One model, one pass over the rows that the run visits: 4 · T bytes a row on disk, shared by
    all later runs.
    """

    def build(self, context: BuildContext) -> Teacher:
        return encoded_once(self.load(context), context)


class Live(TeacherModel):
    """One more forward pass a step, for a corpus whose embeddings would fill the disk; else as
    cached, to rounding.
    """

    def build(self, context: BuildContext) -> Teacher:
        encoder = self.load(context)
        corpus = context.needed("corpus")

        def embed(batch: Batch) -> Tensor:
            texts = corpus.texts(batch.rows.cpu().numpy())
            return encoder(texts).to(batch.rows.device)

        return FunctionTeacher(encoder.width, embed)


@dataclass(frozen=True)
class Initial:
    """A cached teacher: the student before training, without dropout and without the training-only
    head.
    """

    stage = "teachers"
    max_length: Length = 0  # the length that the model is used with
    precision: Precision = "fp32"

    def build(self, context: BuildContext) -> Teacher:
        return Cached(INITIAL, max_length=self.max_length, precision=self.precision).build(context)

    def width_in(self, context: BuildContext) -> int:
        return int(context.needed("student").get_embedding_dimension())
