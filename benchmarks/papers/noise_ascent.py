"""How far DCLR's gradient ascent (Eq. 3) moves its noise, and what that does to the losses: prints
JSON.

    python -m benchmarks.papers.noise_ascent

N = 128 anchors and K = 128 noise vectors of D = 768 dimensions; anchors with mean cosine 0
(isotropic) and .5 (a cone, as encoders have it), positives at cosine .9, τ = .05, four steps. Means
over ten draws, after 0 … 4 steps: ``degrees`` moved, ``non_uniformity`` (Eq. 2) as a change,
``noise_in_infonce`` = InfoNCE with the noise minus without.
"""

import json

import torch
import torch.nn.functional as F
from torch import Tensor

from isotrope.scores.noise import ascend, non_uniformity
from isotrope.terms.infonce import infonce

N, K, D, TEMPERATURE, STEPS, DRAWS = 128, 128, 768, 0.05, 4, 10
# the first is the paper's
SIZES = [(1e-3, False), (1e-1, False), (1e-3, True), (1e-2, True), (1e-1, True)]


def embeddings(cone: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Anchors (N, D) whose pairs have the mean cosine ``cone``, and positives (N, D)."""
    common = torch.randn(D, generator=generator, dtype=torch.float64)
    own, noise = torch.randn(2, N, D, generator=generator, dtype=torch.float64)
    anchor = cone**0.5 * common + (1 - cone) ** 0.5 * own
    return anchor, anchor + (1 / 0.9**2 - 1) ** 0.5 * noise


def measure(step_size: float, relative: bool, cone: float) -> dict[str, object]:
    """Degrees moved and what happens to the two losses after 0 … STEPS steps, means over the draws."""
    angles, uniform, added = torch.zeros(3, DRAWS, STEPS + 1, dtype=torch.float64)
    plain = torch.zeros(DRAWS, dtype=torch.float64)
    for seed in range(DRAWS):
        generator = torch.Generator().manual_seed(seed)
        anchor, positive = embeddings(cone, generator)
        noise = torch.randn(K, D, generator=generator, dtype=torch.float64)
        step = step_size * noise.norm(dim=1, keepdim=True) if relative else step_size
        unit = F.normalize(anchor, dim=1)
        plain[seed] = infonce(unit @ F.normalize(positive, dim=1).T, TEMPERATURE)
        for count in range(STEPS + 1):
            moved = ascend(noise, anchor, positive, TEMPERATURE, step, count)
            # exact at small angles too
            chord = (F.normalize(moved, dim=1) - F.normalize(noise, dim=1)).norm(dim=1)
            angles[seed, count] = torch.rad2deg(2 * torch.asin(chord / 2)).mean()
            uniform[seed, count] = non_uniformity(moved, anchor, positive, TEMPERATURE)
            candidates = F.normalize(torch.cat([positive, moved]), dim=1)
            added[seed, count] = infonce(unit @ candidates.T, TEMPERATURE) - plain[seed]

    def rounded(values: Tensor) -> list[float]:
        return [float(f"{value:.4g}") for value in values.mean(dim=0).tolist()]

    return {
        "step_size": step_size,
        "relative": relative,
        "mean_cosine": cone,
        "degrees": rounded(angles),
        "non_uniformity": rounded(uniform - uniform[:, :1]),
        "noise_in_infonce": rounded(added),
        "infonce": rounded(plain[:, None])[0],
    }


if __name__ == "__main__":
    for cone in (0.0, 0.5):
        for step_size, relative in SIZES:
            print(json.dumps(measure(step_size, relative, cone)))
