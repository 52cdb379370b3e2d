"""The table of the four models."""

from __future__ import annotations

import json

from conftest import ROOT
from isotrope.quickstart.measures import FOUR_MODELS, MEANINGS, WHAT_TO_DO
from isotrope.quickstart.table import judgement, measures_table

RESULT = json.loads((ROOT / "docs" / "results" / "quickstart" / "quickstart.json").read_text())


def test_the_card_has_the_verdict_and_every_model() -> None:
    found = judgement(RESULT)
    assert (found.word, found.advice) == (RESULT["verdict"], WHAT_TO_DO[RESULT["verdict"]])
    assert found.header[1:5] == list(FOUR_MODELS.values())
    assert len(found.rows) == 4
    assert all(meaning in found.how for meaning in MEANINGS.values())


def test_a_row_a_measure_and_an_interval_where_there_is_a_test() -> None:
    table = measures_table(RESULT["measures"])
    assert list(table.header[1:5]) == list(FOUR_MODELS.values())
    rows = {row[0]: row for row in table.rows}
    m = RESULT["measures"]["retrieval"]
    assert rows["retrieval"][1:6] == [*(f"{100 * m[k]:.2f}" for k in FOUR_MODELS), f"{100 * m['difference']:+.2f}"]
    assert rows["uniformity"][1] == f"{RESULT['measures']['uniformity']['before']:.3f}"
    assert [bool(rows[name][-1]) for name in rows] == [True, True, False, False]
