"""The equations by plain loops, written from the papers, for the tests of the fast versions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def infonce(
    cosines: Tensor,
    temperature: float,
    keep: Tensor | None = None,
    weight: float = 1.0,
    positive_in_denominator: bool = True,
) -> float:
    """Mean over anchors, sum over positives, one exponential at a time (float64)."""
    lists = cosines.double().tolist() if cosines.dim() == 3 else [cosines.double().tolist()]
    total = 0.0
    for matrix in lists:
        for i, row in enumerate(matrix):
            denominator = 0.0
            for j, cosine in enumerate(row):
                alpha = 1.0 if keep is None else float(keep[i, j])
                if j == i:
                    alpha = 1.0 if positive_in_denominator else 0.0
                denominator += alpha * math.exp(cosine / temperature)
            total -= weight * math.log(math.exp(row[i] / temperature) / denominator) / len(matrix)
    return total


def cosine(x: list[float], y: list[float]) -> float:
    """Cosine of two vectors."""
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    return dot / math.sqrt(sum(a * a for a in x)) / math.sqrt(sum(b * b for b in y))


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (M, D) -> (N, M) in float64."""
    return torch.tensor([[cosine(a, b) for b in second.tolist()] for a in first.tolist()], dtype=torch.float64)
