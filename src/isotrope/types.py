"""The records that flow from text to loss, and the components between them.

    text → tokens ─token steps→ encoder ×passes → Views ─view steps→ Views → cosine
         → Scores ─score steps→ Scores ─terms→ loss

N sentences in the batch, D dimensions, V views, P = V - 1 positives, K extra candidates, H hard
negatives a sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.errors import UserError

AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]  # temperatures, step sizes
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # weights
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Exponent = Annotated[float, Field(ge=0, le=0.5, allow_inf_nan=False)]  # of whitening: 0.5 is full
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]  # a number that may be none, or that of a pass
# also the numbers of views behind the anchor
Counts = Annotated[tuple[Count, ...], Field(min_length=1)]


Vector = npt.NDArray[np.float64]  # (N,)
Matrix = npt.NDArray[np.float64]  # (N, D)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the sentences of a batch are, apart from their embeddings."""

    rows: Tensor  # (N,) row ids in the corpus: how a teacher knows the sentences
    # for random steps; the same on every process, so that all compute the same full batch
    generator: torch.Generator


@dataclass(frozen=True, slots=True)
class Reading:
    """What the student reads in one pass: the n sentences of this process, not those of all
    processes.
    """

    text: Mapping[str, Any]  # before the token steps: input_ids (n, L), attention_mask (n, L), …
    read: Mapping[str, Any]  # behind them: (n, L')
    # (n, L', H), if a component says that it needs them: ``token_states = True``
    states: Tensor | None


@dataclass(frozen=True, slots=True)
class Views:
    """The embeddings of a batch. View 0 is the anchor, the others its positives."""

    batch: Batch
    stack: Tensor  # (V, N, D)
    negatives: Tensor  # (N, H, D) hard negatives that came with the data, H >= 0
    teachers: Mapping[str, Tensor]  # name -> (N, T) unit rows, no gradient
    # by the number of the pass; none of a peer's
    readings: Mapping[int, Reading] = field(default_factory=dict)

    def with_stack(self, stack: Tensor) -> "Views":
        """The same batch with other embeddings."""
        return replace(self, stack=stack)

    def leading(self, dim: int) -> "Views":
        """The same batch with the first ``dim`` dimensions of its embeddings."""
        return replace(self, stack=self.stack[..., :dim], negatives=self.negatives[..., :dim])

    def named(self, numbers: Sequence[int], key: str) -> Tensor:
        """The views of these numbers, counted as the passes: (len(numbers), N, D).

        Raises:
            UserError: there is no such view; ``key`` names the setting.
        """
        if max(numbers) >= len(self.stack):
            problem = (
                f"{key} = {list(numbers)} is not possible: the views are 0 to {len(self.stack) - 1}"
            )
            raise UserError(problem, "name other views, or raise views.passes", code="no-such-view")
        return self.stack[list(numbers)]


@dataclass(frozen=True, slots=True)
class Scores:
    """The cosines of a batch: anchor i against view p of sentence j, then against the extra
    candidates.
    """

    views: Views  # its stack is in float32 or better
    extra: Tensor  # (K, D) candidates shared by the whole batch: noise, hard negatives, a queue
    cosines: Tensor  # (P, N, N + K)
    keep: Tensor  # (N, N + K) 1 = in the denominator, 0 = removed; 1 on the diagonal

    @classmethod
    def from_views(cls, views: Views) -> "Scores":
        """In float32 or better: in bf16 a cosine has two digits, and the temperature multiplies the
        error by 20.

        With one view, sentences are compared with themselves: P = 1, and the diagonal is 1.
        """
        views = views.with_stack(
            views.stack.to(torch.promote_types(views.stack.dtype, torch.float32))
        )
        unit = F.normalize(views.stack, dim=-1)
        # (N, D) @ (P, D, N) -> (P, N, N)
        cosines = unit[0] @ unit[min(1, len(unit) - 1) :].transpose(1, 2)
        return cls(views, unit.new_zeros(0, unit.shape[-1]), cosines, torch.ones_like(cosines[0]))

    @property
    def pairs(self) -> Tensor:
        """(P, N, N): the square part, sentences against sentences."""
        return self.cosines[:, :, : self.cosines.shape[1]]

    def teacher(self, name: str) -> Tensor:
        """(N, N): the cosines of the teacher called ``name``, in float32 or better, without
        gradient.

        Raises:
            UserError: there is no such teacher.
        """
        if name not in self.views.teachers:
            raise UserError(
                f"a component asks for the teacher {name!r}",
                f'give it: teachers={{"{name}": …}}',
                code="missing-teacher",
            )
        return self.views.teachers[name] @ self.views.teachers[name].T

    def with_extra(self, extra: Tensor) -> "Scores":
        """A copy with K' more negatives (K', D): every anchor is compared with all of them.

        Their cosines with the anchors, the first view, become K' more columns of ``cosines``
        (P, N, M), equal for each of the P positives, and ``keep`` keeps them all.
        """
        extra = extra.to(self.cosines)
        cosines = F.normalize(self.views.stack[0], dim=-1) @ F.normalize(extra, dim=-1).T  # (N, K')
        return replace(
            self,
            extra=torch.cat([self.extra, extra]),
            cosines=torch.cat([self.cosines, cosines.expand(len(self.cosines), -1, -1)], dim=-1),
            keep=torch.cat([self.keep, torch.ones_like(cosines)], dim=-1),
        )


@runtime_checkable
class Encoder(Protocol):
    """Anything that turns sentences into rows: a sentence-transformers model, word vectors, a
    table.
    """

    def encode(self, sentences: list[str], /) -> np.ndarray | Tensor:
        """Sentences -> (len(sentences), D)."""


# Components, as the path calls them.
# changes what is read in its passes
TokenStep = Callable[[dict[str, Tensor], torch.Generator], dict[str, Tensor]]
ViewStep = Callable[[Views], Views]  # changes the embeddings before they are compared
ScoreStep = Callable[[Scores], Scores]  # adds candidates, or removes some from the denominator
# one summand of the loss; ``one_view = True`` if one view of a sentence will do
Term = Callable[[Scores], Tensor]
# (N, T) unit rows without gradient. Never an ``nn.Module``, which a trainer would take for the
# student. One whose rows
# have always as many columns says how many: ``width``. Terms with a projection need it.
Teacher = Callable[[Batch], Tensor]
