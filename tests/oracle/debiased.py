"""DCLR's equations by plain loops, written from the paper (Eqs. 2–6), and distillation by its
definition.
"""

import math
from typing import Any

from torch import Tensor

from oracle.losses import cosine


def non_uniformity(
    noise: list[list[float]], anchor: Tensor, positive: Tensor, temperature: float
) -> float:
    """Eq. 2, one exponential at a time."""
    total = 0.0
    for h, h_pos in zip(anchor.tolist(), positive.tolist(), strict=True):
        denominator = sum(math.exp(cosine(h, vector) / temperature) for vector in noise)
        total -= math.log(math.exp(cosine(h, h_pos) / temperature) / denominator)
    return total / len(anchor)


def gradient(
    noise: list[list[float]],
    anchor: Tensor,
    positive: Tensor,
    temperature: float,
    loss: Any = non_uniformity,
) -> list[list[float]]:
    """Eq. 4 by central differences of Eq. 2, one coordinate at a time; or those of another
    ``loss``.
    """
    width, result = 1e-5, []
    for j, vector in enumerate(noise):
        slopes = []
        for d in range(len(vector)):
            sides = []
            for sign in (1, -1):
                moved = [list(v) for v in noise]
                moved[j][d] += sign * width
                sides.append(loss(moved, anchor, positive, temperature))
            slopes.append((sides[0] - sides[1]) / (2 * width))
        result.append(slopes)
    return result


def ascend(
    noise: Tensor,
    anchor: Tensor,
    positive: Tensor,
    temperature: float,
    step_size: float,
    steps: int,
) -> list[list[float]]:
    """Eq. 3."""
    vectors: list[list[float]] = noise.tolist()
    for _ in range(steps):
        slopes = gradient(vectors, anchor, positive, temperature)
        lengths = [math.sqrt(sum(g * g for g in slope)) for slope in slopes]
        vectors = [
            [x + step_size * g / length for x, g in zip(vector, slope, strict=True)]
            for vector, slope, length in zip(vectors, slopes, lengths, strict=True)
        ]
    return vectors


def instance_weight(teacher: Tensor, threshold: float) -> list[list[float]]:
    """Eq. 5, one candidate at a time."""
    return [
        [1.0 if i == j or value < threshold else 0.0 for j, value in enumerate(row)]
        for i, row in enumerate(teacher.tolist())
    ]


def distillation(cosines: Tensor, teacher: Tensor, temperature: float) -> float:
    """Σ_j q_j log(q_j / p_j), mean over anchors."""
    total = 0.0
    for student_row, teacher_row in zip(cosines.tolist(), teacher.tolist(), strict=True):
        p = [math.exp(value / temperature) for value in student_row]
        q = [math.exp(value / temperature) for value in teacher_row]
        total += sum(
            b / sum(q) * math.log(b / sum(q) / (a / sum(p))) for a, b in zip(p, q, strict=True)
        )
    return total / len(cosines)
