"""What a component may need from outside: the one argument of its ``build(context)``.

A component that needs something (a width, a tokenizer, a corpus) has a method ``build(context)``,
which the objective calls once, before training; it gives what stands in the objective, often
itself:

    def build(self, context: BuildContext) -> Template:
        return replace(self, frame=frame_size(context.needed("tokenizer")))

One that looks up more than a field is a `Buildable`, and one with weights, buffers or a queue is a
`StatefulComponent`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer
from torch import nn

from isotrope.errors import UserError


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The run that a component is built for. What a user's own script does not know is None."""

    width: int | None = None  # D of the student's embeddings
    tokenizer: Any = None  # the student's
    student: SentenceTransformer | None = None  # the model before its training
    # the `isotrope.text.Texts` whose rows the batches name; a sentence is its first column
    corpus: Any = None
    # (R,) the only rows that the run visits, in any order; None for all
    rows: npt.NDArray[np.int64] | None = None
    # (R,) those of them that it reads, if it ends within its first epoch; None for ``rows``
    rows_read: npt.NDArray[np.int64] | None = None
    folder: Path | None = None  # the run's
    max_length: int | None = None  # tokens of a text that the student reads in training
    # name -> teacher, or what tells its ``width`` for now
    teachers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, student: SentenceTransformer, **fields: Any) -> Self:
        """The context of a student, with further ``fields`` of the run."""
        fields = {"max_length": student.max_seq_length, **fields}
        return cls(student.get_embedding_dimension(), student.tokenizer, student, **fields)

    def needed(self, name: str) -> Any:
        """The attribute ``name``, for a component that cannot do without."""
        value = getattr(self, name)
        if value is None:
            raise UserError(
                f"a component needs the {name} of its run",
                f"give it: BuildContext({name}=…)",
                "missing-context",
            )
        return value

    def teacher_width(self, name: str) -> int:
        """T of the teacher ``name``, for a projection to it."""
        width = getattr(self.teachers.get(name), "width", None)
        if width is None:
            raise UserError(
                f"a component asks for the width of the teacher {name!r}",
                f'give it, teachers={{"{name}": …}}: one that is a model, or your own with an'
                " attribute width",
                "missing-teacher",
            )
        return int(width)


@dataclass(frozen=True)
class TeacherSpec:
    """A teacher that has not read the corpus. Only the width of its rows can be asked for."""

    settings: Any
    context: BuildContext

    @cached_property
    def width(self) -> int | None:
        """None: no fixed width. The model is loaded once to tell it."""
        if not hasattr(self.settings, "width_in"):
            return None
        return self.settings.width_in(self.context)  # type: ignore[no-any-return]


class Buildable:
    """A component whose options are the fields of its dataclass, and whose `begin` makes the rest,
    in a copy.
    """

    def build(self, context: BuildContext) -> Self:
        component = replace(self)  # type: ignore[type-var]
        component.begin(context)
        return component

    def begin(self, context: BuildContext) -> None:
        """Make what the options and the run decide: ids of words, weights, buffers, queues."""


@dataclass(eq=False, repr=False)
class StatefulComponent(Buildable, nn.Module):
    """A component with weights, buffers or a queue."""

    def __post_init__(self) -> None:
        super().__init__()


def built(component: Any, context: BuildContext) -> Any:
    """Call ``component.build(context)`` if it exists, also within lists, pairs and dictionaries."""
    if hasattr(component, "build"):
        return component.build(context)
    if type(component) in (list, tuple):
        return type(component)(built(item, context) for item in component)
    if isinstance(component, dict):
        return {name: built(item, context) for name, item in component.items()}
    return component
