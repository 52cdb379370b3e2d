"""The table of before and after, for runs and for compared models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isotrope.cards.verdict import COMPARED, comparison_rows, with_average
from isotrope.report.tables import Table

SPEARMAN = (
    "Spearman × 100: how well the order of the pairs by cosine agrees with their order by score. 100 is the same "
    "order, 0 is chance."
)


def before_after(title: str, comparisons: Mapping[str, Mapping[str, Any]], rows: str = "task") -> Table:
    """One row for each comparison: both scores in points, the change, its 95 % interval, p and the verdict.

    Args:
        title: what was compared, and how.
        comparisons: the name of each row -> `isotrope.evaluation.significance.Comparison` as a dictionary.
        rows: header of the names' column.
    """
    return Table(title, [rows, *COMPARED], comparison_rows(comparisons))


def of_run(comparison: Mapping[str, Any]) -> Table:
    """The comparison in a run's ``result.json``: one row for each task, and the average of several."""
    table = before_after("Spearman × 100 on the same pairs", with_average(comparison))
    return replace(table, notes=[SPEARMAN])
