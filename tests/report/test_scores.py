"""The tables that papers print, of several models."""

from __future__ import annotations

from pathlib import Path

from isotrope.evaluation.suite import main_scores
from isotrope.report import scores
from wordbag import Bag, own_pairs, results_of


def test_intervals_hold_the_score_and_shrink_with_pairs() -> None:
    def width(count: int) -> float:
        result = results_of(Bag(), "sts", own_pairs(count))
        (row,) = scores.interval_table("sts", {"bag": result}).rows
        low, high = map(float, row[1].split(" … "))
        assert low < 100 * main_scores("sts", result)["mine"] < high
        return high - low

    assert width(2000) < width(100) / 2


def test_the_average_is_the_papers(data: Path, cached: Path) -> None:
    encoder = Bag()
    from isotrope.evaluation.suite import average, run

    result = run(encoder, "sts", data)
    (table,) = scores.suite_tables("sts", {"bag": result})
    assert table.header[-1] == "Avg."
    assert table.rows[0][-1] == f"{100 * average(result).exact:.2f}"
