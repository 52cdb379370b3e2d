"""A moving average of weights, and how fast it moves (MoCo: He et al., CVPR 2020; BYOL: Grill et al., NeurIPS 2020).

https://arxiv.org/abs/1911.05722, Eq. 2; https://arxiv.org/abs/2006.07733, Sec. 3.3.
"""

import math

import torch
from torch import nn


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
