"""A teacher that encodes every batch anew: for a corpus whose embeddings would fill the disk, or that is read once."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.teachers._model import TeacherEncoder, TeacherModel
from isotrope.types import Batch, Teacher


@dataclass(frozen=True)
class Live(TeacherModel):
    """One model, one more forward pass a step; the same embeddings as cached, to rounding."""

    stage = "teachers"

    def build(self, context: BuildContext) -> Teacher:
        return _Encoding(self.load(context), context.needed("corpus"))


class _Encoding:
    def __init__(self, encoder: TeacherEncoder, corpus: Any) -> None:
        self.encoder, self.corpus, self.width = encoder, corpus, encoder.width

    def __call__(self, batch: Batch) -> Tensor:
        return self.encoder(self.corpus.texts(batch.rows.cpu().numpy())).to(batch.rows.device)
