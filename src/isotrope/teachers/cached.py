"""A teacher that reads the corpus once; from then on it is a look-up in a memory-mapped file."""

from __future__ import annotations

from dataclasses import dataclass

from isotrope.contract.context import BuildContext
from isotrope.teachers._model import CorpusEmbeddings, TeacherModel
from isotrope.types import Teacher


@dataclass(frozen=True)
class Cached(TeacherModel):
    """One model, one pass over the rows that the run visits: 4 · T bytes a row on disk, shared by all later runs."""

    stage = "teachers"

    def build(self, context: BuildContext) -> Teacher:
        """The teacher: row ids (N,) -> (N, T). Long, unless the embeddings are in the cache."""
        return CorpusEmbeddings.open(self.load(context), context)
