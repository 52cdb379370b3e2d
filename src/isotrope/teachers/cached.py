"""A teacher that reads the corpus once; from then on it is a look-up in a memory-mapped file."""

from dataclasses import dataclass

from isotrope.contract.context import BuildContext
from isotrope.teachers._model import CorpusEmbeddings, TeacherModel
from isotrope.types import Teacher


@dataclass(frozen=True)
class Cached(TeacherModel):
    """One model, one pass over the rows that the run visits: 4 · T bytes a row on disk, shared by all later runs."""

    stage = "teachers"

    def build(self, context: BuildContext) -> Teacher:
        return CorpusEmbeddings.open(self.load(context), context)
