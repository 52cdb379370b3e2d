"""The truth at the end: the new model against the one it began with, on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Cosines, Sets, main_pairs, score

ADVICE = {
    "better": "use the new model",
    "worse": "keep the model you began with",
    "cannot be told": "keep the model you began with, or give the run more text or more pairs to be judged on",
}


def judge(sets: Sets, before: Cosines, after: Cosines, seed: int = 0) -> dict[str, Any]:
    """Before → after with a paired bootstrap -> what ``result.json`` keeps: scores, comparison, verdict, advice."""
    if not sets:
        return {
            "verdict": "cannot be told",
            "advice": "name labelled pairs (--dev FILE.tsv, or --data) to have it judged",
        }
    old, new = main_pairs(sets, before), main_pairs(sets, after)
    comparison = asdict(compare(old, new, seed=seed))
    return {
        "verdict": comparison["verdict"],
        "advice": ADVICE[comparison["verdict"]],
        "comparison": comparison,
        "before": score(sets, before),
        "after": score(sets, after),
    }


def table(judged: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows (task, before, after, change) in points, the average last."""
    if "comparison" not in judged:
        return []
    whole = judged["comparison"]
    rows = (
        [*whole["per_task"].items(), ("average", whole)]
        if len(whole["per_task"]) > 1
        else list(whole["per_task"].items())
    )
    return [
        (name, f"{100 * c['before']:.2f}", f"{100 * c['after']:.2f}", f"{100 * c['difference']:+.2f}")
        for name, c in rows
    ]
