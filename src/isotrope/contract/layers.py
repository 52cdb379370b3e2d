"""Layers within components: new ones, which learn, models that never change, and those that follow another one.

MoCo: He et al., CVPR 2020, https://arxiv.org/abs/1911.05722, Eq. 2; BYOL: Grill et al., NeurIPS 2020,
https://arxiv.org/abs/2006.07733, Sec. 3.3.
"""

import math
from typing import Any, Self

import torch
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


def follow(average: nn.Module, leader: nn.Module, decay: float) -> None:
    """θ_average ← decay · θ_average + (1 − decay) · θ_leader, in place, without gradient; buffers are copied.

    Both are the same module, but for a wrapping of ``leader``.
    """
    with torch.no_grad():
        for mine, theirs in zip(average.parameters(), leader.parameters(), strict=True):
            mine.lerp_(theirs.to(mine), 1 - decay)
        for kept, now in zip(average.buffers(), leader.buffers(), strict=True):
            kept.copy_(now)


def decay_at(step: int, start: float, rise: int) -> float:
    """The decay after ``step`` steps: it rises from ``start`` to 1 within ``rise`` steps, along half a cosine.

    ``rise`` = 0: it stays at ``start``. 1 − (1 − start) · (cos(π · step / rise) + 1) / 2.
    """
    if not rise:
        return start
    return 1 - (1 - start) * (math.cos(math.pi * min(step, rise) / rise) + 1) / 2
