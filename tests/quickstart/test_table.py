"""The table of both models."""

from __future__ import annotations

import json

from conftest import ROOT
from isotrope.quickstart.table import measures_table

RESULT = json.loads((ROOT / "docs" / "results" / "quickstart" / "quickstart.json").read_text())


def test_a_row_a_measure_and_an_interval_where_there_is_a_test() -> None:
    table = measures_table(RESULT["measures"])
    rows = {row[0]: row for row in table.rows}
    m = RESULT["measures"]["retrieval"]
    figures = [f"{100 * m[when]:.2f}" for when in ("before", "after")]
    assert rows["retrieval"][1:4] == [*figures, f"{100 * m['difference']:+.2f}"]
    assert rows["uniformity"][1] == f"{RESULT['measures']['uniformity']['before']:.3f}"
    assert [bool(rows[name][-1]) for name in rows] == [True, True, False, False]
