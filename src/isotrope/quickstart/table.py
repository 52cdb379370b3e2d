"""The quickstart's table: four models on four measures."""

from __future__ import annotations

from collections.abc import Mapping

from isotrope.quickstart.measures import FOUR_MODELS
from isotrope.report.tables import Table


def measures_table(measures: Mapping[str, Mapping[str, float]]) -> Table:
    """A row a measure: the four models, the change and its interval. It fits into 80 columns."""
    rows = []
    for name, values in measures.items():
        scale, digits = (100, 2) if "p" in values else (1, 3)
        change = f"{scale * (values['after'] - values['before']):+.{digits}f}"
        interval = f"{scale * values['low']:+.2f} … {scale * values['high']:+.2f}" if "low" in values else ""
        rows.append([name, *(f"{scale * values[model]:.{digits}f}" for model in FOUR_MODELS), change, interval])
    title = "No label was used; the change is from the first to the last"
    return Table(title, ["", *FOUR_MODELS.values(), "change", "95 %"], rows)
