"""The truth at the end: the new model against the one it began with, on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.evaluation.significance import compare
from isotrope.evaluation.sts import Cosines, Sets, headline, score, similarities
from isotrope.types import Encoder

ADVICE = {
    "better": "use the new model",
    "worse": "keep the model you began with",
    "cannot be told": "keep the model you began with, or give the run more text or more pairs to be judged on",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on the judging pairs."""

    cosines: Cosines

    @classmethod
    def of(cls, encoder: Encoder, sets: Sets) -> Measured:
        return cls(similarities(encoder, sets))

    def save(self, path: Path, sets: Sets) -> None:
        """Keep the cosines, so that a resumed run need not encode again; beside each its gold scores, for the report.

        Keys of the .npz: ``task/part`` and ``task/part/gold``.
        """
        flat = {f"{task}/{part}": values for task, parts in self.cosines.items() for part, values in parts.items()}
        flat |= {f"{task}/{part}/gold": pairs.gold for task, parts in sets.items() for part, pairs in parts.items()}
        draft = path.with_suffix(".part.npz")
        np.savez(draft, **flat)  # type: ignore[arg-type]
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Measured:
        cosines: dict[str, dict[str, Any]] = {}
        with np.load(path, allow_pickle=False) as file:
            for task, part, *gold in (key.split("/") for key in file.files):
                if not gold:
                    cosines.setdefault(task, {})[part] = file[f"{task}/{part}"]
        return cls(cosines)


def judge(sets: Sets, before: Measured, after: Measured, seed: int = 0) -> dict[str, Any]:
    """Before → after with a paired bootstrap -> what ``result.json`` keeps: scores, comparison, verdict, advice."""
    if not sets:
        return {
            "verdict": "cannot be told",
            "advice": "name labelled pairs (--dev FILE.tsv, or --data) to have it judged",
        }
    old, new = headline(sets, before.cosines), headline(sets, after.cosines)
    comparison = asdict(compare(old, new, seed=seed))
    return {
        "verdict": comparison["verdict"],
        "advice": ADVICE[comparison["verdict"]],
        "comparison": comparison,
        "before": score(sets, before.cosines),
        "after": score(sets, after.cosines),
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
