"""Two models' results on one suite, compared case by case: pairs, lists, queries or samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from isotrope.evaluation.significance import Comparison, compare, compare_tasks
from isotrope.types import Vector

TaskResults = Mapping[str, Mapping[str, Any]]  # task -> its result, as `isotrope.evaluate` gives it
ResultComparer = Callable[[TaskResults, TaskResults, int], Comparison]


def pair_cases(results: TaskResults) -> dict[str, tuple[Vector, Vector]]:
    """Task → gold scores and cosines (N,), (N,) of an "sts" result."""
    pairs = {task: result["per_pair"] for task, result in results.items()}
    return {task: (np.array(p["gold"]), np.array(p["cosine"])) for task, p in pairs.items()}


def compare_pairs(before: TaskResults, after: TaskResults, seed: int = 0) -> Comparison:
    """Paired bootstrap over sentence pairs of Spearman's correlation, averaged over the tasks."""
    return compare(pair_cases(before), pair_cases(after), seed=seed)


def compare_cases(kind: str, measure: str) -> ResultComparer:
    """Paired bootstrap of the mean of one number a case, averaged over the tasks: `result[kind][measure]`."""

    def judge(before: TaskResults, after: TaskResults, seed: int = 0) -> Comparison:
        old, new = (
            {task: np.array(result[kind][measure], dtype=np.float64) for task, result in results.items()}
            for results in (before, after)
        )
        return compare_tasks(old, new, seed=seed)

    return judge
