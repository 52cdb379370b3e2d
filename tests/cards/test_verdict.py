"""The rows of a verdict."""

from __future__ import annotations

from isotrope.cards.verdict import COMPARED, comparison_rows, signed, with_average

ONE = {"before": 0.5, "after": 0.491, "difference": -0.009, "low": -0.02, "high": 0.001, "p": 0.0712, "verdict": "x"}


def test_a_row_is_in_points_with_signs() -> None:
    (row,) = comparison_rows({"STSBenchmark": ONE})
    assert row == ["STS-B", "50.00", "49.10", "−0.90", "−2.00 … +0.10", "0.0712", "x"]
    assert len(row) == 1 + len(COMPARED)
    assert signed(0.0123) == "+1.23"


def test_several_tasks_have_an_average() -> None:
    assert list(with_average(ONE | {"per_task": {"a": ONE}})) == ["a"]
    assert list(with_average(ONE | {"per_task": {"a": ONE, "b": ONE}})) == ["a", "b", "average"]
