"""Layers within components: new ones, which learn, and models that never change."""

from typing import Any, Self

from torch import nn


def as_new(layer: nn.Linear, std: float = 0.02) -> nn.Linear:
    """The layer, which starts as every new layer of BERT does: weights from N(0, ``std``²), bias 0."""
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Frozen(nn.Module):
    """A model that stays as it is: it moves between devices with its component, and no checkpoint holds it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.held = (model.float().eval().requires_grad_(False),)  # in a tuple, where torch does not look for weights

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.held[0]._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return super()._apply(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]

    def forward(self, **read: Any) -> Any:
        return self.held[0](**read)
