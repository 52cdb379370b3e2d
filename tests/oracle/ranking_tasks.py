"""Ranking lists, Kendall's coefficients and NDCG by plain loops, straight from their definitions."""

import math
from itertools import combinations, permutations


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def kendall(x: list[float], y: list[float], tau: str) -> float:
    concordant = discordant = tied_x = tied_y = 0
    for i, j in combinations(range(len(x)), 2):
        product = sign(x[i] - x[j]) * sign(y[i] - y[j])
        concordant += product > 0
        discordant += product < 0
        tied_x += x[i] == x[j]
        tied_y += y[i] == y[j]
    pairs = len(x) * (len(x) - 1) // 2
    if pairs in (tied_x, tied_y):
        return 0.0
    if tau == "a":
        return (concordant - discordant) / pairs
    if tau == "b":
        return (concordant - discordant) / math.sqrt((pairs - tied_x) * (pairs - tied_y))
    m = min(len(set(x)), len(set(y)))
    return 2 * m * (concordant - discordant) / (len(x) ** 2 * (m - 1))


def dcg(gains: list[float], at: int | None) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains[:at], start=1))


def ndcg(scores: list[float], gold: list[float], gain: str, at: int | None) -> float:
    """The mean over every order that agrees with the scores: all permutations of the tied, so for
    short lists alone.
    """
    gains = [g if gain == "linear" else 2**g - 1 for g in gold]
    best = dcg(sorted(gains, reverse=True), at)
    if best == 0:
        return 0.0
    places = range(len(scores))
    fitting = [
        order
        for order in permutations(places)
        if all(scores[order[i]] >= scores[order[i + 1]] for i in places[:-1])
    ]
    return sum(dcg([gains[i] for i in order], at) for order in fitting) / len(fitting) / best


def lists(
    pairs: list[tuple[str, str, float]], side: str, more_than: int
) -> dict[str, list[tuple[str, float]]]:
    """query -> (sentence, score) of every pair that has the query on that side."""
    found = {}
    for query in dict.fromkeys(sentence for pair in pairs for sentence in pair[:2]):
        members = []
        for first, second, gold in pairs:
            if first == query and side != "second":
                members.append((second, gold))
            elif second == query and side != "first":
                members.append((first, gold))
        if len(members) > more_than:
            found[query] = members
    return found
