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


def multi_positive_inside(cosines: Tensor, temperature: float, weight: float, printed: bool) -> float:
    """Mean over anchors; the positives (P, N, M) are summed inside the logarithm (float64)."""
    total = 0.0
    lists = cosines.double().tolist()
    count = cosines.shape[1]
    for i in range(count):
        inside = 0.0
        for matrix in lists:
            denominator = sum(math.exp(value / temperature) for value in matrix[i])
            positive = math.exp(-matrix[i][i] / temperature)  # its minus sign stands in the paper
            inside += weight * (positive / denominator if printed else positive * denominator)
        total += -math.log(inside) if printed else math.log(inside)
    return total / count


def cosine(x: list[float], y: list[float]) -> float:
    """Cosine of two vectors."""
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    return dot / math.sqrt(sum(a * a for a in x)) / math.sqrt(sum(b * b for b in y))


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (M, D) -> (N, M) in float64."""
    return torch.tensor([[cosine(a, b) for b in second.tolist()] for a in first.tolist()], dtype=torch.float64)


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> float:
    """Mean over all 2N views; an anchor's candidates are all views but itself (float64)."""
    rows, count = a.tolist() + b.tolist(), len(a)
    total = 0.0
    for i, row in enumerate(rows):
        other = (i + count) % (2 * count)
        denominator = sum(math.exp(cosine(row, one) / temperature) for k, one in enumerate(rows) if k != i)
        total -= math.log(math.exp(cosine(row, rows[other]) / temperature) / denominator)
    return total / (2 * count)


def arc(cosines: Tensor, temperature: float, margin: float) -> float:
    """Mean over anchors; the positive's angle is widened by the margin (float64)."""
    total = 0.0
    for i, row in enumerate(cosines.double().tolist()):
        positive = math.exp(math.cos(math.acos(row[i]) + margin) / temperature)
        others = sum(math.exp(value / temperature) for j, value in enumerate(row) if j != i)
        total -= math.log(positive / (positive + others))
    return total / len(cosines)


def ct(a: Tensor, b: Tensor) -> float:
    """Mean over all pairs of the binary cross-entropy of their dot product (float64)."""
    total = 0.0
    for i, x in enumerate(a.tolist()):
        for j, y in enumerate(b.tolist()):
            same = 1 / (1 + math.exp(-sum(p * q for p, q in zip(x, y, strict=True))))
            total -= math.log(same if i == j else 1 - same)
    return total / len(a) ** 2


def triplet(anchor: Tensor, near: Tensor, far: Tensor, margin: float) -> float:
    """Mean over sentences of what the further copy is too near (float64)."""
    rows = zip(anchor.tolist(), near.tolist(), far.tolist(), strict=True)
    return sum(max(0.0, cosine(a, f) - cosine(a, n) + margin) for a, n, f in rows) / len(anchor)


def next_tokens(logits: Tensor, target: Tensor, mask: Tensor) -> list[float]:
    """-log of the softmax at each real token behind the first, sentence by sentence (float64)."""
    found = []
    for rows, ids, real in zip(logits.double().tolist(), target.tolist(), mask.tolist(), strict=True):
        for row, token, seen in zip(rows, ids[1:], real[1:], strict=True):
            if seen:
                found.append(math.log(sum(math.exp(value) for value in row)) - row[token])
    return found


def replaced_tokens(logits: Tensor, replaced: Tensor, mask: Tensor) -> list[float]:
    """-log of the probability of what each real token is, sentence by sentence (float64)."""
    found = []
    for row, labels, real in zip(logits.double().tolist(), replaced.tolist(), mask.tolist(), strict=True):
        for value, label, seen in zip(row, labels, real, strict=True):
            if seen:
                probability = 1 / (1 + math.exp(-value))
                found.append(-math.log(probability if label else 1 - probability))
    return found


def mutual_information(products: Tensor, of: list[int]) -> float:
    """Mean softplus of the negative products with the own sentence, and of the products with all others (float64)."""
    own, others = [], []
    for row, sentence in zip(products.double().tolist(), of, strict=True):
        for number, value in enumerate(row):
            if number == sentence:
                own.append(math.log(1 + math.exp(-value)))
            else:
                others.append(math.log(1 + math.exp(value)))
    return sum(own) / len(own) + sum(others) / len(others)
