"""A head of the student's width, whose weights or statistics are its own."""

from dataclasses import dataclass, field, replace
from typing import Self

from torch import nn

from isotrope.contract.context import BuildContext
from isotrope.types import Count


@dataclass(eq=False, repr=False)
class Head(nn.Module):
    """Its width D is ``dim``, by default the student's, which `build` knows; `begin` makes what it learns."""

    dim: Count | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__init__()
        if self.dim is not None:
            self.begin(self.dim)

    def build(self, context: BuildContext) -> Self:
        return self if self.dim else replace(self, dim=context.needed("width"))

    def begin(self, dim: int) -> None:
        """Make the weights or statistics for the width D."""


def new_linear(width: int, std: float = 0.02) -> nn.Linear:
    """A layer that starts as every new layer of BERT does: weights from N(0, ``std``²), bias 0."""
    layer = nn.Linear(width, width)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer
