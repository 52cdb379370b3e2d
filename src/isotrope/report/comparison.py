"""The table of before and after, for runs and for compared models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotrope.report.tables import Table

SHORT_NAMES = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}  # of tasks, as papers print them


def before_after(title: str, comparisons: Mapping[str, Mapping[str, Any]], rows: str = "task") -> Table:
    """One row for each comparison: both scores in points, the change, its 95 % interval, p and the verdict.

    Args:
        title: what was compared, and how.
        comparisons: the name of each row -> `isotrope.evaluation.significance.Comparison` as a dictionary.
        rows: header of the names' column.
    """
    cells = [
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
    return Table(title, [rows, "before", "after", "change", "95 % interval", "p", "verdict"], cells)


def of_run(comparison: Mapping[str, Any]) -> Table:
    """The comparison in a run's ``result.json``: one row for each task, and the average of several."""
    tasks = dict(comparison["per_task"])
    if len(tasks) > 1:
        tasks["average"] = comparison
    return before_after("Spearman × 100 on the same pairs", tasks)


def signed(fraction: float) -> str:
    """A change in points, with its sign."""
    return f"{100 * fraction:+.2f}".replace("-", "−")
