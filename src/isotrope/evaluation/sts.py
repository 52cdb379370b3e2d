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

import numpy as np

from isotrope.evaluation.correlation import pearson, spearman
from isotrope.evaluation.results import Result, Results
from isotrope.evaluation.sets.graded_pairs import GradedPairs, embed_pairs
from isotrope.evaluation.sets.senteval import SPLITS
from isotrope.types import Encoder, Vector

Subsets = Mapping[str, GradedPairs]  # subset or split of a task → pairs
SimilaritySets = Mapping[str, Subsets]  # task → its subsets or splits
Cosines = Mapping[str, Mapping[str, Vector]]  # the same with one cosine a pair


def evaluate_sets(encoder: Encoder, sets: SimilaritySets) -> Results:
    """What `score` gives for each task, and "per_pair" with the "gold" and "cosine" of each pair of
    `main_pairs`.
    """
    cosines = pair_similarities(encoder, sets)
    results = score(sets, cosines)
    for task, (gold, cosine) in main_pairs(sets, cosines).items():
        results[task]["per_pair"] = {"gold": gold.tolist(), "cosine": cosine.tolist()}
    return results


def pair_similarities(encoder: Encoder, sets: SimilaritySets) -> dict[str, dict[str, Vector]]:
    """Cosine of every pair of every set, (N,) each; every distinct sentence is encoded once over
    all sets.
    """
    all_pairs = [pairs for subsets in sets.values() for pairs in subsets.values()]
    embeddings = embed_pairs(encoder, all_pairs)
    similarities = {}
    for task, subsets in sets.items():
        similarities[task] = {
            name: pairs.similarities(embeddings) for name, pairs in subsets.items()
        }
    return similarities


def score(sets: SimilaritySets, cosines: Cosines) -> Results:
    """Correlations of the cosines with the gold scores, as fractions.

    Gives, for each task, `["spearman"]` and `["pearson"]` (each with "all", "mean", "wmean", or the
    task's splits), `["subsets"][name]["spearman" / "pearson" / "nsamples"]`, and `["nsamples"]`,
    the pairs scored.
    """
    return {task: _score_task(subsets, cosines[task]) for task, subsets in sets.items()}


def _score_task(subsets: Subsets, cosines: Mapping[str, Vector]) -> Result:
    """`score` of one task."""
    by_subset = {name: _score_pairs(pairs, cosines[name]) for name, pairs in subsets.items()}
    sizes = [len(pairs) for pairs in subsets.values()]
    gold, all_cosines = _joined(subsets, cosines)
    are_splits = set(subsets) <= set(SPLITS["STSBenchmark"])

    result: Result = {"nsamples": sum(sizes), "subsets": by_subset}
    for measure, correlate in (("spearman", spearman), ("pearson", pearson)):
        scores = {name: subset[measure] for name, subset in by_subset.items()}
        result[measure] = scores
        if not are_splits:
            values = list(scores.values())
            result[measure] = {
                "all": correlate(all_cosines, gold),
                "mean": float(np.mean(values)),
                "wmean": float(np.average(values, weights=sizes)),
            }
    return result


def _score_pairs(pairs: GradedPairs, cosines: Vector) -> dict[str, float]:
    """`score` of one subset or split."""
    return {
        "spearman": spearman(cosines, pairs.gold),
        "pearson": pearson(cosines, pairs.gold),
        "nsamples": len(pairs),
    }


def _joined(subsets: Subsets, cosines: Mapping[str, Vector]) -> tuple[Vector, Vector]:
    """Gold scores and cosines (N,) of all subsets."""
    gold = []
    joined_cosines = []
    for name, pairs in subsets.items():
        gold.append(pairs.gold)
        joined_cosines.append(cosines[name])
    return np.concatenate(gold), np.concatenate(joined_cosines)


def main_pairs(sets: SimilaritySets, cosines: Cosines) -> dict[str, tuple[Vector, Vector]]:
    """Gold scores and cosines (N,), as `compare` takes them, behind the number that papers print:
    "all", or "test".
    """
    main = {}
    for task, subsets in sets.items():
        if "test" in subsets:
            subsets = {"test": subsets["test"]}
        main[task] = _joined(subsets, cosines[task])
    return main
