"""Before and after, in points: runs, compared models and students."""

from collections.abc import Mapping, Sequence
from typing import Any

from isotrope.evaluation.verdict import signed
from isotrope.report.tables import Table

# of tasks, as papers print them
SHORT_NAMES = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}
# the columns beside the names
COMPARED = ("before", "after", "change", "95 % interval", "p", "verdict")
SPEARMAN = (
    "Spearman × 100: how well the order of the pairs by cosine agrees with their order by score. "
    "100 is the same order, 0 is chance."
)
WORDS = {"not significant": "no difference found"}  # of a paired test -> as a verdict says it


def before_after(
    title: str,
    comparisons: Mapping[str, Mapping[str, Any]],
    rows: str = "task",
    notes: Sequence[str] = (),
) -> Table:
    """A row for each `isotrope.evaluation.significance.Comparison` as a dictionary; ``rows`` is
    what the names are.
    """
    cells = [
        [
            SHORT_NAMES.get(name, name),
            f"{100 * comparison['before']:.2f}",
            f"{100 * comparison['after']:.2f}",
            signed(comparison["difference"]),
            _interval(comparison),
            _p_value(comparison["p"]),
            WORDS.get(comparison["verdict"], comparison["verdict"]),
        ]
        for name, comparison in comparisons.items()
    ]
    return Table(title, [rows, *COMPARED], cells, notes=notes)


def _p_value(p: float | None) -> str:
    """A p value for a reader, or a dash if nothing was tested."""
    if p is None:
        return "—"
    return "< 0.001" if p < 0.001 else f"{p:.3g}"


def _interval(comparison: Mapping[str, Any]) -> str:
    """The bounds of a comparison's interval, or a dash if nothing was tested."""
    if comparison["low"] is None:
        return "—"
    return f"{signed(comparison['low'])} … {signed(comparison['high'])}"


def with_average(comparison: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tasks of a comparison, and their average if there are several."""
    tasks = dict(comparison["per_task"])
    return tasks | {"average": comparison} if len(tasks) > 1 else tasks


def of_run(comparison: Mapping[str, Any]) -> Table:
    """The comparison in a run's ``result.json``: a row for each task, and their average."""
    return before_after(
        "Spearman × 100 on the same pairs", with_average(comparison), notes=[SPEARMAN]
    )
