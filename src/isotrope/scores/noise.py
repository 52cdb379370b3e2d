"""Noise negatives, moved to where the batch is least uniform (DCLR: Zhou et al., ACL 2022, Eqs. 1–4).

https://aclanthology.org/2022.acl-long.423
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores


def non_uniformity(noise: Tensor, anchor: Tensor, positive: Tensor, temperature: float) -> Tensor:
    """Eq. 2, mean over anchors: only noise in the denominator. noise (K, D), anchor, positive (N, D) -> ()."""
    anchor, positive = F.normalize(anchor, dim=-1), F.normalize(positive, dim=-1)
    numerator = (anchor * positive).sum(dim=-1) / temperature  # (N,)
    denominator = torch.logsumexp(anchor @ F.normalize(noise, dim=-1).T / temperature, dim=-1)
    return (denominator - numerator).mean()


def gradient(noise: Tensor, anchor: Tensor, temperature: float, batch: Tensor | None = None) -> Tensor:
    """Eq. 4 in closed form -> (K, D). The positive is in Eq. 2's numerator alone, so the gradient is free of it.

    ``batch``, cosines (N, N) of anchors and positives, joins the denominator, where the public code has it.
    """
    unit, anchor = F.normalize(noise, dim=-1), F.normalize(anchor, dim=-1)
    cosines = torch.cat([anchor @ unit.T, *([] if batch is None else [batch])], dim=1)  # (N, K) or (N, K + N)
    share = (cosines / temperature).softmax(dim=1)[:, : len(unit)] / (temperature * len(anchor))  # (N, K)
    pull = share.T @ anchor  # (K, D) towards the anchors that are near already
    along = (pull * unit).sum(dim=-1, keepdim=True) * unit  # changes the length, not the cosine
    length: Tensor = noise.norm(dim=-1, keepdim=True)
    return (pull - along) / length


def ascend(
    noise: Tensor,  # (K, D)
    anchor: Tensor,  # (N, D)
    positive: Tensor,  # (N, D), any of the positives: see ``gradient``
    temperature: float,
    step_size: float | Tensor,  # length of a step, or (K, 1): one for each vector
    steps: int,
    batch: Tensor | None = None,  # (N, N), see ``gradient``
) -> Tensor:
    """Eq. 3, ``steps`` times: every noise vector goes ``step_size`` up its gradient; one without gradient stays."""
    noise, anchor = noise.detach(), anchor.detach()
    for _ in range(steps):
        noise = noise + step_size * F.normalize(gradient(noise, anchor, temperature, batch), dim=-1)
    return noise


@dataclass(frozen=True)
class Noise:
    """int(``ratio``·N) vectors from N(0, 1) join every anchor's denominator. BibTeX: zhou2022dclr.

    ``steps = 0`` is Table 2's random noise. As published, the ascent hardly moves a vector: it is √D ≈ 28 long and goes
    .004 far. ``relative`` measures ``step_size`` in lengths of the drawn vector. The paper does not give its τ_u.
    ``against_batch`` ascends the released code's loss, whose denominator has the batch, with the first positives, too.
    """

    ratio: NonNegative = 1.0
    steps: Annotated[int, Field(ge=0)] = 4
    step_size: AboveZero = 1e-3
    relative: bool = False
    temperature: AboveZero = 0.05
    against_batch: bool = False

    def __call__(self, scores: Scores) -> Scores:
        anchor, positive = scores.views.stack[:2].detach().to(scores.cosines)
        size = (int(self.ratio * len(anchor)), anchor.shape[1])
        noise = torch.randn(size, generator=scores.views.batch.generator).to(anchor)  # (K, D), drawn on the CPU
        step = self.step_size * noise.norm(dim=-1, keepdim=True) if self.relative else self.step_size
        batch = scores.pairs[0].detach() if self.against_batch else None
        return scores.with_extra(ascend(noise, anchor, positive, self.temperature, step, self.steps, batch))
