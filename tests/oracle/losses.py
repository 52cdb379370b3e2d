"""The equations by plain loops, written from the papers, for the tests of the fast versions."""

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


def multi_positive_inside(
    cosines: Tensor, temperature: float, weight: float, printed: bool
) -> float:
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
    return torch.tensor(
        [[cosine(a, b) for b in second.tolist()] for a in first.tolist()], dtype=torch.float64
    )


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> float:
    """Mean over all 2N views; an anchor's candidates are all views but itself (float64)."""
    rows, count = a.tolist() + b.tolist(), len(a)
    total = 0.0
    for i, row in enumerate(rows):
        other = (i + count) % (2 * count)
        denominator = sum(
            math.exp(cosine(row, one) / temperature) for k, one in enumerate(rows) if k != i
        )
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


def ct_pairs(a: Tensor, b: Tensor, negatives: int) -> float:
    """Mean over pairs: the first of each group is its own pair, the others' is the sentence before
    (float64).
    """
    total, first, second = 0.0, a.tolist(), b.tolist()
    for i, x in enumerate(first):
        own = i % (negatives + 1) == 0
        same = 1 / (
            1 + math.exp(-sum(p * q for p, q in zip(x, second[i if own else i - 1], strict=True)))
        )
        total -= math.log(same if own else 1 - same)
    return total / len(a)


def triplet(anchor: Tensor, near: Tensor, far: Tensor, margin: float) -> float:
    """Mean over sentences of what the further copy is too near (float64)."""
    rows = zip(anchor.tolist(), near.tolist(), far.tolist(), strict=True)
    return sum(max(0.0, cosine(a, f) - cosine(a, n) + margin) for a, n, f in rows) / len(anchor)


def next_tokens(logits: Tensor, target: Tensor, mask: Tensor) -> list[float]:
    """-log of the softmax at each real token behind the first, sentence by sentence (float64)."""
    found = []
    for rows, ids, real in zip(
        logits.double().tolist(), target.tolist(), mask.tolist(), strict=True
    ):
        for row, token, seen in zip(rows, ids[1:], real[1:], strict=True):
            if seen:
                found.append(math.log(sum(math.exp(value) for value in row)) - row[token])
    return found


def hidden_words(logits: Tensor, words: Tensor) -> list[float]:
    """-log of the probability of each hidden word (float64)."""
    rows = zip(logits.double().tolist(), words.tolist(), strict=True)
    return [math.log(sum(math.exp(value) for value in row)) - row[word] for row, word in rows]


def replaced_tokens(logits: Tensor, replaced: Tensor, mask: Tensor) -> list[float]:
    """-log of the probability of what each real token is, sentence by sentence (float64)."""
    found = []
    for row, labels, real in zip(
        logits.double().tolist(), replaced.tolist(), mask.tolist(), strict=True
    ):
        for value, label, seen in zip(row, labels, real, strict=True):
            if seen:
                probability = 1 / (1 + math.exp(-value))
                found.append(-math.log(probability if label else 1 - probability))
    return found


def mutual_information(products: Tensor, own: Tensor) -> float:
    """Mean softplus of the negative products with the own sentence, and of the products with all
    others (float64).
    """
    near, others = [], []
    for row, mine in zip(products.double().tolist(), own.tolist(), strict=True):
        for value, same in zip(row, mine, strict=True):
            if same:
                near.append(math.log(1 + math.exp(-value)))
            else:
                others.append(math.log(1 + math.exp(value)))
    return sum(near) / len(near) + sum(others) / len(others)


def margin_band(anchor: Tensor, positive: Tensor, soft: Tensor, least: float, most: float) -> float:
    """Mean over sentences of what the soft negative is too near or too far away (float64)."""
    total = 0.0
    for a, p, s in zip(anchor.tolist(), positive.tolist(), soft.tolist(), strict=True):
        difference = cosine(a, s) - cosine(a, p)
        total += max(0.0, difference + least) + max(0.0, -difference - most)
    return total / len(anchor)


def group_list(
    anchor: Tensor, positives: Tensor, others: Tensor, temperature: float
) -> list[list[float]]:
    """Of each sentence, the probabilities of its positives, then of the other sentences (float64)."""
    found = []
    for i, a in enumerate(anchor.tolist()):
        near = [math.exp(cosine(a, copy[i]) / temperature) for copy in positives.tolist()]
        far = [
            math.exp(cosine(a, o) / temperature) for j, o in enumerate(others.tolist()) if j != i
        ]
        found.append([value / sum(near + far) for value in near + far])
    return found


def group_contrast(stack: Tensor, temperature: float) -> float:
    """Mean over sentences and positives of -log of the positive's probability (float64)."""
    lists, count = group_list(stack[0], stack[1:], stack[0], temperature), len(stack) - 1
    return -sum(math.log(row[r]) for row in lists for r in range(count)) / (len(lists) * count)


def peer_lists(own: Tensor, peer: Tensor, temperature: float) -> float:
    """Divergences of one encoder's lists from the other's, within and across, mean over all entries
    (float64).
    """
    pairs = [
        (
            group_list(own[0], own[1:], own[0], temperature),
            group_list(peer[0], peer[1:], peer[0], temperature),
        ),
        (
            group_list(own[0], peer[1:], peer[0], temperature),
            group_list(peer[0], own[1:], own[0], temperature),
        ),
    ]
    total = 0.0
    for lists, targets in pairs:
        for row, target in zip(lists, targets, strict=True):
            total += sum(t * math.log(t / p) for p, t in zip(row, target, strict=True)) / len(row)
    return total / own.shape[1]


def neighbour_contrast(a: Tensor, b: Tensor, near: Tensor, temperature: float, both: bool) -> float:
    """Mean over views of -log of the positive's share beside a sentence's neighbours (float64)."""

    def power(x: list[float], y: list[float]) -> float:
        return math.exp(sum(p * q for p, q in zip(x, y, strict=True)) / temperature)

    first, second, total, count = a.tolist(), b.tolist(), 0.0, 0
    for own, other in ((second, first), (first, second))[: 2 if both else 1]:
        for i, row in enumerate(own):
            beside = [j for j, is_near in enumerate(near[i].tolist()) if is_near]
            negatives = sum(
                power(row, other[j]) + (power(row, own[j]) if both else 0.0) for j in beside
            )
            positive = power(row, other[i])
            total, count = total - math.log(positive / (positive + negatives)), count + 1
    return total / count


def self_guided(anchor: Tensor, layers: Tensor, temperature: float) -> float:
    """Mean over sentences and layers; negatives are all layers of the other sentences (float64)."""
    total, count = 0.0, len(anchor)
    for i, a in enumerate(anchor.tolist()):
        power = [
            [math.exp(cosine(a, row) / temperature) for row in layer] for layer in layers.tolist()
        ]
        others = sum(row[j] for row in power for j in range(count) if j != i)
        total -= sum(math.log(row[i] / (row[i] + others)) for row in power)
    return total / (count * len(layers))
