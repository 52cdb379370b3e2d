"""The quickstart's table: before and after, on four measures."""

from __future__ import annotations

from collections.abc import Mapping

from isotrope.report.tables import Table


def measures_table(measures: Mapping[str, Mapping[str, float]]) -> Table:
    """A row a measure: both models, the change and its interval. It fits into 80 columns."""
    rows = []
    for name, values in measures.items():
        scale, digits = (100, 2) if "p" in values else (1, 3)
        change = f"{scale * (values['after'] - values['before']):+.{digits}f}"
        interval = f"{scale * values['low']:+.2f} … {scale * values['high']:+.2f}" if "low" in values else ""
        rows.append([name, *(f"{scale * values[model]:.{digits}f}" for model in ("before", "after")), change, interval])
    return Table("No label was used", ["", "before", "after", "change", "95 %"], rows)
