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

from isotrope.evaluation.correlation import pearson, spearman
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.senteval import SPLITS
from isotrope.types import Encoder, Vector

SimilaritySets = Mapping[str, Mapping[str, GradedPairs]]  # task → subset or split → pairs
Cosines = Mapping[str, Mapping[str, Vector]]  # the same with one cosine a pair


def evaluate_sets(encoder: Encoder, sets: SimilaritySets) -> dict[str, Any]:
    """What `score` gives for each task, and "per_pair" with the "gold" and "cosine" of each pair of
    `main_pairs`.
    """
    cosines = pair_similarities(encoder, sets)
    found = score(sets, cosines)
    for task, (gold, cosine) in main_pairs(sets, cosines).items():
        found[task]["per_pair"] = {"gold": gold.tolist(), "cosine": cosine.tolist()}
    return found


def pair_similarities(encoder: Encoder, sets: SimilaritySets) -> dict[str, dict[str, Vector]]:
    """Cosine of every pair of every set, (N,) each; every distinct sentence is encoded once over
    all sets.
    """
    everything = [pairs for parts in sets.values() for pairs in parts.values()]
    known = Embeddings.of(
        encoder, (s for pairs in everything for s in (*pairs.first, *pairs.second))
    )
    return {
        task: {part: p.similarities(known) for part, p in parts.items()}
        for task, parts in sets.items()
    }


def score(sets: SimilaritySets, cosines: Cosines) -> dict[str, Any]:
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


def main_pairs(sets: SimilaritySets, cosines: Cosines) -> dict[str, tuple[Vector, Vector]]:
    """Gold scores and cosines (N,), as `compare` takes them, behind the number that papers print:
    "all", or "test".
    """
    found = {}
    for task, parts in sets.items():
        chosen = ["test"] if "test" in parts else list(parts)
        gold = np.concatenate([parts[name].gold for name in chosen])
        found[task] = gold, np.concatenate([cosines[task][name] for name in chosen])
    return found
