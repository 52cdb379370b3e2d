"""RankCSE's equations and Wang and Isola's by plain loops, for the tests of the fast versions."""

import math

from torch import Tensor

Matrix = list[list[float]]


def matrices(lists: Tensor) -> list[Matrix]:
    """(N, N) or (P, N, N) -> P matrices of Python floats."""
    return lists.double().tolist() if lists.dim() == 3 else [lists.double().tolist()]


def top_one(row: list[float], temperature: float) -> list[float]:
    """The probability of each element to be ranked first."""
    weights = [math.exp(value / temperature) for value in row]
    return [weight / sum(weights) for weight in weights]


def others(row: list[float], i: int, drop: bool) -> list[float]:
    return [value for j, value in enumerate(row) if j != i or not drop]


def consistency(cosines: Tensor, temperature: float) -> float:
    divergences = []
    for matrix in matrices(cosines):
        for i, row in enumerate(matrix):
            p = top_one(row, temperature)
            q = top_one([other[i] for other in matrix], temperature)
            pairs = zip(p, q, strict=True)
            terms = [
                a * math.log(2 * a / (a + b)) + b * math.log(2 * b / (a + b)) for a, b in pairs
            ]
            divergences.append(sum(terms) / 2)
    return sum(divergences) / len(divergences)


def listnet(
    cosines: Tensor,
    teacher: Tensor,
    temperature: float,
    teacher_temperature: float,
    drop_positive: bool = True,
) -> float:
    entropies = []
    for matrix in matrices(cosines):
        for i, row in enumerate(matrix):
            student = top_one(others(row, i, drop_positive), temperature)
            target = top_one(others(matrices(teacher)[0][i], i, drop_positive), teacher_temperature)
            entropies.append(-sum(t * math.log(s) for t, s in zip(target, student, strict=True)))
    return sum(entropies) / len(entropies)


def listmle(
    cosines: Tensor, teacher: Tensor, temperature: float, drop_positive: bool = False
) -> float:
    losses = []
    for matrix in matrices(cosines):
        for i, row in enumerate(matrix):
            scores = others(row, i, drop_positive)
            labels = others(matrices(teacher)[0][i], i, drop_positive)
            left = list(range(len(scores)))
            loss = 0.0
            while left:
                first = max(left, key=lambda j: (labels[j], -j))  # a tie: the earlier column
                loss -= math.log(
                    math.exp(scores[first] / temperature)
                    / sum(math.exp(scores[j] / temperature) for j in left)
                )
                left.remove(first)
            losses.append(loss)
    return sum(losses) / len(losses)


def unit(row: list[float]) -> list[float]:
    norm = math.sqrt(sum(value * value for value in row))
    return [value / norm for value in row]


def squared_distance(x: list[float], y: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(unit(x), unit(y), strict=True))


def alignment(anchors: Tensor, positives: Tensor) -> float:
    rows = anchors.double().tolist()
    distances = [
        squared_distance(x, y)
        for view in matrices(positives)
        for x, y in zip(rows, view, strict=True)
    ]
    return sum(distances) / len(distances)


def uniformity(embeddings: Tensor, t: float = 2.0) -> float:
    values = []
    for view in matrices(embeddings):
        kernel = [
            math.exp(-t * squared_distance(view[i], view[j]))
            for j in range(len(view))
            for i in range(j)
        ]
        values.append(math.log(sum(kernel) / len(kernel)))
    return sum(values) / len(values)
