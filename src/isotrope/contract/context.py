"""What a component may need from outside: the one argument of its ``build(context)``.

A component that needs something (a width, a tokenizer, a corpus) has a method ``build(context)``,
which the objective calls once, before training; it gives what stands in the objective, often
itself:

    def build(self, context: BuildContext) -> Template:
        return replace(self, frame=frame_size(context.needed("tokenizer")))

One that looks up more than a field is a `Begun`, and one with weights, buffers or a queue a
`WithState`.
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
    folder: Path | None = None  # the run's
    max_length: int | None = None  # tokens of a text that the student reads in training
    # name -> teacher, or what tells its ``width`` for now
    teachers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, student: SentenceTransformer, **known: Any) -> Self:
        """All that a student tells, and what else is ``known``."""
        told = {"max_length": student.max_seq_length} | known
        return cls(student.get_embedding_dimension(), student.tokenizer, student, **told)

    def needed(self, name: str) -> Any:
        """The attribute ``name``, for a component that cannot do without."""
        if (value := getattr(self, name)) is None:
            raise UserError(
                f"a component needs the {name} of its run", f"give it: BuildContext({name}=…)"
            )
        return value

    def teacher_width(self, name: str) -> int:
        """T of the teacher ``name``, for a projection to it."""
        if (width := getattr(self.teachers.get(name), "width", None)) is None:
            remedy = f'give it, teachers={{"{name}": …}}: one that is a model, or your own with an attribute width'
            raise UserError(f"a component asks for the width of the teacher {name!r}", remedy)
        return int(width)


@dataclass(frozen=True)
class Unopened:
    """A teacher that has not read the corpus: all that is known of it is how wide its rows will be."""

    settings: Any
    context: BuildContext

    @cached_property
    def width(self) -> int | None:
        """None: no fixed width. The model is loaded once to tell it."""
        return self.settings.width_in(self.context) if hasattr(self.settings, "width_in") else None


class Begun:
    """A component whose options are the fields of its dataclass, and whose `begin` makes the rest,
    in a copy.
    """

    def build(self, context: BuildContext) -> Self:
        made = replace(self)  # type: ignore[type-var]
        made.begin(context)
        return made

    def begin(self, context: BuildContext) -> None:
        """Make what the options and the run decide: ids of words, weights, buffers, queues."""


@dataclass(eq=False, repr=False)
class WithState(Begun, nn.Module):
    """A component with weights, buffers or a queue."""

    def __post_init__(self) -> None:
        super().__init__()


def built(component: Any, context: BuildContext) -> Any:
    """What stands in the objective for a component, or for each of a list or dictionary of them."""
    if isinstance(component, list):
        return [built(each, context) for each in component]
    if isinstance(component, dict):
        return {name: built(each, context) for name, each in component.items()}
    return component.build(context) if hasattr(component, "build") else component
