"""The student as it was before training, as a teacher: what it knows is held while it learns."""

from dataclasses import dataclass

from isotrope.contract.context import BuildContext
from isotrope.teachers._model import INITIAL, Length, Precision
from isotrope.teachers.cached import Cached
from isotrope.types import Teacher


@dataclass(frozen=True)
class Initial:
    """A cached teacher from the run's own model. A resumed run loads the same model first, and finds the same cache.

    Without dropout and without the training-only head; ``max_length`` 0 is the length that the model is used with.
    """

    stage = "teachers"
    max_length: Length = 0
    precision: Precision = "fp32"

    def build(self, context: BuildContext) -> Teacher:
        return Cached(INITIAL, max_length=self.max_length, precision=self.precision).build(context)

    def width_in(self, context: BuildContext) -> int:
        return int(context.needed("student").get_embedding_dimension())
