"""Several teachers as one: S^T = Σ α_m S_m (RankCSE Sec. 4.4, for two).
https://aclanthology.org/2023.acl-long.771
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.teachers._model import FunctionTeacher, Length, Pooling, Precision
from isotrope.teachers.model import Cached, Live
from isotrope.types import Batch, NonNegative, Teacher


def mix(
    embeddings: Sequence[Tensor],  # of each teacher (N, T_i)
    weights: Sequence[float],  # of each teacher, normalised here to sum 1
) -> Tensor:
    """Rows √α_1·a_1 joined to √α_2·a_2 … -> (N, ΣT_i) unit rows, whose cosines are Σ α_m cos(a_m,
    a_m′).
    """
    columns = []
    for rows, weight in zip(embeddings, weights, strict=True):
        dtype = torch.promote_types(rows.dtype, torch.float32)
        unit = F.normalize(rows.to(dtype), dim=-1)
        alpha = weight / sum(weights)
        columns.append(alpha**0.5 * unit)
    return torch.cat(columns, dim=-1)


@dataclass(frozen=True)
class Mixture:
    """One or several models; options that are lists have one entry a model, or none. BibTeX:
    liu2023rankcse.
    """

    stage = "teachers"
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    weights: tuple[NonNegative, ...] = ()  # of the cosines; (): equal
    pooling: tuple[Pooling, ...] = ()  # (): each model's own
    max_length: Length | tuple[Length, ...] = 0  # as of one model; a list has one entry a model
    prompt: tuple[str, ...] = ()  # words before every text; (): each model's default prompt
    precision: Precision = "fp32"
    live: bool = False  # encode every batch anew, instead of the corpus once

    def __post_init__(self) -> None:
        for name in ("weights", "pooling", "max_length", "prompt"):
            self._each(name, None)

    def build(self, context: BuildContext) -> Teacher:
        teachers: list[Any] = [model.build(context) for model in self._single()]
        weights = self._each("weights", 1.0)

        def embed(batch: Batch) -> Tensor:
            embeddings = [teacher(batch) for teacher in teachers]
            return mix(embeddings, weights)

        width = sum(teacher.width for teacher in teachers)
        return FunctionTeacher(width, embed)

    def width_in(self, context: BuildContext) -> int:
        return sum(model.width_in(context) for model in self._single())

    def _single(self) -> list[Live | Cached]:
        kind = Live if self.live else Cached
        poolings = self._each("pooling", "own")
        lengths = self._each("max_length", 0)
        prompts = self._each("prompt", None)
        teachers: list[Live | Cached] = []
        for index, model in enumerate(self.models):
            teachers.append(
                kind(
                    model=model,
                    pooling=poolings[index],
                    max_length=lengths[index],
                    precision=self.precision,
                    prompt=prompts[index],
                )
            )
        return teachers

    def _each(self, name: str, default: Any) -> Sequence[Any]:
        values = getattr(self, name)
        if not isinstance(values, tuple):
            values = [values] * len(self.models)
        if values and len(values) != len(self.models):
            problem = f"teachers.mixture.{name} = {list(values)} for {len(self.models)} models"
            raise UserError(
                problem, "give one entry a model, or leave it out", code="entries-and-models"
            )
        return values or [default] * len(self.models)
