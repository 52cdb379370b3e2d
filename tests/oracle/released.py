"""What public code does instead of its paper, by plain loops, written from the description in
docs/fidelity.md.
"""

import math

from torch import Tensor

from oracle.losses import cosine


def softmax_bce(cosines: Tensor, temperature: float, keep: Tensor) -> float:
    """Softmax over the kept candidates, then -[y log p + (1 - y) log (1 - p)], mean over all
    entries.
    """
    total, entries = 0.0, 0
    for i, row in enumerate(cosines.tolist()):
        weights = [float(keep[i, j]) * math.exp(value / temperature) for j, value in enumerate(row)]
        for j, weight in enumerate(weights):
            p = weight / sum(weights)
            total -= math.log(p) if i == j else math.log(1 - p)
            entries += 1
    return total / entries


def non_uniformity(
    noise: list[list[float]], anchor: Tensor, positive: Tensor, temperature: float
) -> float:
    """Eq. 2 with the whole batch beside the noise in its denominator."""
    total = 0.0
    for i, h in enumerate(anchor.tolist()):
        batch = [math.exp(cosine(h, other) / temperature) for other in positive.tolist()]
        denominator = sum(math.exp(cosine(h, vector) / temperature) for vector in noise) + sum(
            batch
        )
        total -= math.log(batch[i] / denominator)
    return total / len(anchor)


def listmle(cosines: Tensor, teacher: Tensor, temperature: float) -> float:
    """Place after place: the log of what is left, above the list's maximum and with 1e-7 added,
    less the placed one.
    """
    total = 0.0
    for row, ranks in zip(cosines.tolist(), teacher.tolist(), strict=True):
        scores = [value / temperature - max(row) / temperature for value in row]
        left = sorted(range(len(row)), key=lambda j: -ranks[j])
        while left:
            total += math.log(sum(math.exp(scores[j]) for j in left) + 1e-7) - scores[left[0]]
            left = left[1:]
    return total / len(cosines)


def consistency(cosines: Tensor, temperature: float) -> float:
    """Jensen-Shannon, where the logarithm of the mixture is clamped to at least 1e-7."""
    rows, total = cosines.tolist(), 0.0
    for i, row in enumerate(rows):
        p = [math.exp(value / temperature) for value in row]
        q = [math.exp(other[i] / temperature) for other in rows]
        p, q = ([max(x / sum(each), 1e-7) for x in each] for each in (p, q))
        for a, b in zip(p, q, strict=True):
            mixture = max(math.log((a + b) / 2), 1e-7)
            total += (a * (math.log(a) - mixture) + b * (math.log(b) - mixture)) / 2
    return total / len(rows)
