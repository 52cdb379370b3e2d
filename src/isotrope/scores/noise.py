"""Noise negatives, moved where a batch is least uniform (DCLR Eqs. 1–4).
https://aclanthology.org/2022.acl-long.423
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.types import AboveZero, NonNegative, Scores, Whole


def non_uniformity(
    noise: Tensor,  # (K, D)
    anchor: Tensor,  # (N, D)
    positive: Tensor,  # (N, D)
    temperature: float,
) -> Tensor:
    """Eq. 2, mean over anchors: only noise in the denominator -> ()."""
    anchor = F.normalize(anchor, dim=-1)
    positive = F.normalize(positive, dim=-1)
    noise = F.normalize(noise, dim=-1)
    log_numerator = (anchor * positive).sum(dim=-1) / temperature  # (N,)
    logits = anchor @ noise.T / temperature  # (N, K)
    log_denominator = logits.logsumexp(dim=-1)  # (N,)
    return (log_denominator - log_numerator).mean()


def gradient(
    noise: Tensor,  # (K, D)
    anchor: Tensor,  # (N, D)
    temperature: float,
    further: Tensor | None = None,  # (N, M): cosines of further candidates; the paper has none
) -> Tensor:
    """DCLR Eq. 4 in closed form: the gradient of Eq. 2 with respect to the noise -> (K, D). The
    positive is in Eq. 2's numerator alone, so the gradient is free of it.

    ``further`` candidates are in the denominator too.
    """
    count = len(noise)
    unit = F.normalize(noise, dim=-1)
    anchor = F.normalize(anchor, dim=-1)
    cosines = anchor @ unit.T  # (N, K)
    if further is not None:
        cosines = torch.cat([cosines, further], dim=1)
    shares = (cosines / temperature).softmax(dim=1)
    weights = shares[:, :count] / (temperature * len(anchor))  # (N, K)

    pull = weights.T @ anchor  # (K, D) towards the anchors that are near already
    pull_along = (pull * unit).sum(dim=-1, keepdim=True)  # (K, 1)
    along = pull_along * unit  # changes the length, not the cosine
    length: Tensor = noise.norm(dim=-1, keepdim=True)
    return (pull - along) / length


def ascend(
    noise: Tensor,  # (K, D)
    anchor: Tensor,  # (N, D)
    positive: Tensor,  # (N, D), any of the positives: see ``gradient``
    temperature: float,
    step_size: float | Tensor,  # length of a step, or (K, 1): one for each vector
    steps: int,
) -> Tensor:
    """Eq. 3, ``steps`` times: every noise vector goes ``step_size`` up its gradient; one without
    gradient stays.
    """
    noise = noise.detach()
    anchor = anchor.detach()
    for _ in range(steps):
        slope = gradient(noise, anchor, temperature)
        direction = F.normalize(slope, dim=-1)
        noise = noise + step_size * direction
    return noise


@dataclass(frozen=True)
class Noise:
    """int(``ratio``·N) vectors from N(0, σ²) join every anchor's denominator. BibTeX: zhou2022dclr.

    As published, the ascent hardly moves a vector: its length is σ√D ≈ 28, and it moves by 0.004.
    """

    stage = "scores"
    ratio: NonNegative = 1.0
    steps: Whole = 4  # 0: Table 2's random noise
    step_size: AboveZero = 1e-3
    relative: bool = False  # ``step_size`` counts in lengths of the drawn vector
    temperature: AboveZero = 0.05  # τ_u, which the paper does not give
    # as in Sec. 5.1; cosines do not see it, but with a smaller one the steps count for more
    sigma: AboveZero = 1.0

    def __call__(self, scores: Scores) -> Scores:
        anchor = scores.views.stack[0]
        sentences, dim = anchor.shape
        count = int(self.ratio * sentences)
        generator = scores.views.batch.generator
        draws = torch.randn(count, dim, generator=generator)  # on the CPU
        noise = self.sigma * draws.to(anchor)  # (K, D)

        step_size: float | Tensor = self.step_size
        if self.relative:
            step_size = step_size * noise.norm(dim=-1, keepdim=True)  # (K, 1)
        moved = self.moved(noise, step_size, scores)
        return scores.with_extra(moved)

    def moved(self, noise: Tensor, step_size: float | Tensor, scores: Scores) -> Tensor:
        """The drawn vectors (K, D) after all steps."""
        anchor, positive = scores.views.stack[:2].detach()
        return ascend(noise, anchor, positive, self.temperature, step_size, self.steps)
