"""The verdict on a model, as cards and pages show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

SHORT_NAMES = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}  # of tasks, as papers print them
COMPARED = ("before", "after", "change", "95 % interval", "p", "verdict")  # what `comparison_rows` gives for each name


class Judgement(BaseModel):
    """A verdict and the scores behind it.

    Attributes:
        word: ``better``, ``worse``, ``not significant``, …
        advice: what to do.
        how: what was measured, on what, and by which test.
        header, rows: the table of the scores. The first column holds names.
        against: what the model was compared with; empty: the base model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    word: str
    advice: str
    how: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    against: str = ""


def comparison_rows(comparisons: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A row for each comparison: its name, and the columns `COMPARED`, in points.

    Args:
        comparisons: name -> `isotrope.evaluation.significance.Comparison` as a dictionary.
    """
    return [
        [
            SHORT_NAMES.get(name, name),
            f"{100 * found['before']:.2f}",
            f"{100 * found['after']:.2f}",
            signed(found["difference"]),
            f"{signed(found['low'])} … {signed(found['high'])}",
            f"{found['p']:.3g}",
            found["verdict"],
        ]
        for name, found in comparisons.items()
    ]


def with_average(comparison: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tasks of the comparison in a run's ``result.json``, and their average if there are several."""
    tasks = dict(comparison["per_task"])
    return tasks | {"average": comparison} if len(tasks) > 1 else tasks


def signed(fraction: float) -> str:
    """A change in points, with its sign."""
    return f"{100 * fraction:+.2f}".replace("-", "−")
