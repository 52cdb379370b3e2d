"""Semantic textual similarity by the papers' protocol: correlation of the cosine with people's
scores.

STS12 … STS16 have subsets. "all", the default, is one correlation over the concatenated subsets, as
in SimCSE and the papers after it. "mean" is the mean over subsets. "wmean" is that mean weighted by
the number of pairs, as in SentEval and the papers on flow and whitening. STSBenchmark and
SICKRelatedness have one correlation a split.

Source: SentEval, Conneau and Kiela (2018), https://arxiv.org/abs/1803.05449; on "all", Gao et al.
(2021), appendix B, https://arxiv.org/abs/2104.08821.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata

from isotrope.evaluation.embed import Known
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import SPLITS
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Vector

Sets = Mapping[str, Mapping[str, Pairs]]  # task → subset or split → pairs
Cosines = Mapping[str, Mapping[str, Vector]]  # the same with one cosine a pair

# values that differ by less than this, relatively, differ by rounding alone (float32)
_CONSTANT = 1e-6


def evaluate_sets(encoder: Encoder, sets: Sets) -> dict[str, Any]:
    """What `score` gives for each task, and "per_pair" with the "gold" and "cosine" of each pair of
    `main_pairs`.
    """
    cosines = similarities(encoder, sets)
    found = score(sets, cosines)
    for task, (gold, cosine) in main_pairs(sets, cosines).items():
        found[task]["per_pair"] = {"gold": gold.tolist(), "cosine": cosine.tolist()}
    return found


def similarities(encoder: Encoder, sets: Sets) -> dict[str, dict[str, Vector]]:
    """Cosine of every pair of every set, (N,) each; every distinct sentence is encoded once over
    all sets.
    """
    everything = [pairs for parts in sets.values() for pairs in parts.values()]
    known = Known.of(encoder, (s for pairs in everything for s in (*pairs.first, *pairs.second)))
    return {
        task: {part: known.cosines(p) for part, p in parts.items()} for task, parts in sets.items()
    }


def score(sets: Sets, cosines: Cosines) -> dict[str, Any]:
    """Correlations of the cosines with the gold scores, as fractions.

    Gives, for each task, `["spearman"]` and `["pearson"]` (each with "all", "mean", "wmean", or the
    task's splits), `["subsets"][name]["spearman" / "pearson" / "nsamples"]`, and `["nsamples"]`,
    the pairs scored.
    """
    results = {}
    for task, parts in sets.items():
        sizes, golds = (
            [len(pairs) for pairs in parts.values()],
            [pairs.gold for pairs in parts.values()],
        )
        found = [cosines[task][part] for part in parts]
        result: dict[str, Any] = {
            "nsamples": sum(sizes),
            "subsets": {p: {"nsamples": len(parts[p])} for p in parts},
        }
        for measure, correlate in (("spearman", spearman), ("pearson", pearson)):
            single = dict(zip(parts, map(correlate, found, golds), strict=True))
            for part, value in single.items():
                result["subsets"][part][measure] = value
            if not set(parts) <= set(SPLITS["STSBenchmark"]):
                scores = list(single.values())
                single = {
                    "all": correlate(np.concatenate(found), np.concatenate(golds)),
                    "mean": float(np.mean(scores)),
                    "wmean": float(np.average(scores, weights=sizes)),
                }
            result[measure] = single
        results[task] = result
    return results


def spearman(x: Vector, y: Vector) -> float:
    """Spearman's rank correlation of x (N,) and y (N,), ties given their mean rank. Constant input
    earns 0.

    A constant orders nothing, so a collapsed encoder scores 0: a number that compares and fits into
    JSON, unlike NaN.
    """
    return float(np.clip(products(x, y).mean(), -1.0, 1.0))


def pearson(x: Vector, y: Vector) -> float:
    """Pearson's correlation of x (N,) and y (N,). Constant input earns 0, as in `spearman`."""
    return float(np.clip(products(x, y, ranked=False).mean(), -1.0, 1.0))


def products(x: Vector, y: Vector, ranked: bool = True) -> Vector:
    """The products of two values (N,), or of their ranks, in standard units (N,): their mean is the
    correlation.
    """
    if any(float(np.ptp(values)) <= _CONSTANT * float(np.max(np.abs(values))) for values in (x, y)):
        return np.zeros(len(x))
    a, b = (rankdata(values) if ranked else values for values in (x, y))
    return np.asarray((a - a.mean()) / a.std() * ((b - b.mean()) / b.std()))


def main_pairs(sets: Sets, cosines: Cosines) -> dict[str, tuple[Vector, Vector]]:
    """Gold scores and cosines (N,), as `compare` takes them, behind the number that papers print:
    "all", or "test".
    """
    found = {}
    for task, parts in sets.items():
        chosen = ["test"] if "test" in parts else list(parts)
        gold = np.concatenate([parts[name].gold for name in chosen])
        found[task] = gold, np.concatenate([cosines[task][name] for name in chosen])
    return found


class PairTask:
    """Graded pairs as a task with a number for each case: their mean is Spearman's correlation."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self.name, self.size = pairs, pairs.name, len(pairs)
        self.texts = [*pairs.first, *pairs.second]

    def part(self, count: int) -> "PairTask":
        """At most ``count`` pairs, evenly spread."""
        return PairTask(self.pairs.rows(np.array(evenly(self.size, count))))

    def score(self, encoder: Encoder) -> Vector:
        """The product of each pair's two ranks in standard units, by cosine and by grade: (N,)."""
        return products(Known.of(encoder, self.texts).cosines(self.pairs), self.pairs.gold)
