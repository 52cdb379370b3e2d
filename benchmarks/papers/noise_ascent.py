"""How far DCLR's gradient ascent (Eq. 3) moves its noise, and what that does to the losses: prints
JSON.

    python -m benchmarks.papers.noise_ascent

N = 128 anchors and K = 128 noise vectors of D = 768 dimensions; anchors with mean cosine 0
(isotropic) and .5 (a cone, as encoders have it), positives at cosine .9, τ = .05, four steps. Means
over ten draws, after 0 … 4 steps: ``degrees`` moved, ``non_uniformity`` (Eq. 2) as a change,
``noise_in_infonce`` = InfoNCE with the noise minus without.
"""

import json
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.scores.noise import ascend, non_uniformity
from isotrope.terms.infonce import infonce

N = 128  # anchors
K = 128  # noise vectors
D = 768
TEMPERATURE = 0.05
STEPS = 4
DRAWS = 10
POSITIVE = 0.9  # cosine of an anchor and its positive


@dataclass(frozen=True)
class StepSize:
    """The length of a step; relative: to that of each noise vector."""

    length: float
    relative: bool


STEP_SIZES = [
    StepSize(1e-3, relative=False),  # the paper's
    StepSize(1e-1, relative=False),
    StepSize(1e-3, relative=True),
    StepSize(1e-2, relative=True),
    StepSize(1e-1, relative=True),
]


def embeddings(cone: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Anchors (N, D) whose pairs have the mean cosine ``cone``, and positives (N, D)."""
    common = torch.randn(D, generator=generator, dtype=torch.float64)
    own, noise = torch.randn(2, N, D, generator=generator, dtype=torch.float64)
    anchor = cone**0.5 * common + (1 - cone) ** 0.5 * own
    return anchor, anchor + (1 / POSITIVE**2 - 1) ** 0.5 * noise


def angles(noise: Tensor, moved: Tensor) -> Tensor:
    """Degrees (K,) between the vectors before and after; exact at small angles too."""
    chord = (F.normalize(moved, dim=1) - F.normalize(noise, dim=1)).norm(dim=1)
    return torch.rad2deg(2 * torch.asin(chord / 2))


class Draw:
    """What one draw gave, after 0 … STEPS steps."""

    def __init__(self, step_size: StepSize, cone: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        anchor, positive = embeddings(cone, generator)
        noise = torch.randn(K, D, generator=generator, dtype=torch.float64)
        step: Any = step_size.length
        if step_size.relative:
            step = step_size.length * noise.norm(dim=1, keepdim=True)

        unit = F.normalize(anchor, dim=1)
        self.plain = infonce(unit @ F.normalize(positive, dim=1).T, TEMPERATURE)
        self.degrees: list[Tensor] = []
        self.uniform: list[Tensor] = []
        self.added: list[Tensor] = []
        for count in range(STEPS + 1):
            moved = ascend(noise, anchor, positive, TEMPERATURE, step, count)
            candidates = F.normalize(torch.cat([positive, moved]), dim=1)
            self.degrees.append(angles(noise, moved).mean())
            self.uniform.append(non_uniformity(moved, anchor, positive, TEMPERATURE))
            self.added.append(infonce(unit @ candidates.T, TEMPERATURE) - self.plain)


def measure(step_size: StepSize, cone: float) -> dict[str, object]:
    """Degrees moved and what happens to the two losses after 0 … STEPS steps: means over draws."""
    draws = [Draw(step_size, cone, seed) for seed in range(DRAWS)]
    uniform = torch.stack([torch.stack(draw.uniform) for draw in draws])  # (DRAWS, STEPS + 1)
    return {
        "step_size": step_size.length,
        "relative": step_size.relative,
        "mean_cosine": cone,
        "degrees": mean(torch.stack([torch.stack(draw.degrees) for draw in draws])),
        "non_uniformity": mean(uniform - uniform[:, :1]),
        "noise_in_infonce": mean(torch.stack([torch.stack(draw.added) for draw in draws])),
        "infonce": mean(torch.stack([draw.plain for draw in draws])[:, None])[0],
    }


def mean(values: Tensor) -> list[float]:
    """Over the draws (DRAWS, …), to four digits."""
    return [float(f"{value:.4g}") for value in values.mean(dim=0).tolist()]


if __name__ == "__main__":
    for cone in (0.0, 0.5):
        for step_size in STEP_SIZES:
            print(json.dumps(measure(step_size, cone)))
