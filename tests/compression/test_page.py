"""What a student keeps and saves, as tables and words."""

from typing import Any

from isotrope.compression.page import (
    compression_verdict,
    cost_table,
    kept_line,
    quality_table,
)


def comparison(before: float, after: float, **tasks: tuple[float, float]) -> dict[str, Any]:
    change = after - before
    found = {"difference": change, "low": change - 0.01, "high": change + 0.01, "p": 0.01, "resamples": 1000}
    per_task = {task: comparison(*scores) for task, scores in tasks.items()}
    return {"before": before, "after": after, "verdict": "better", "per_task": per_task, **found}


RECORD: dict[str, Any] = {
    "teacher": "large", "student": "layers:3", "side": "both", "kept": 0.9,
    "quality": {
        "graded pairs": {
            "teacher": comparison(0.8, 0.72, STSBenchmark=(0.8, 0.72), none=(0.0, 0.1)),
            "start": comparison(0.6, 0.72, STSBenchmark=(0.6, 0.72), none=(0.0, 0.1)),
        }
    },
    "cost": {
        "texts": 64, "speed": [100.0, 420.0], "faster": {"median": 4.2, "low": 4.0, "high": 4.5},
        "weights": [90_000_000, 26_000_000], "memory": [180_000_000, None],
    },
}  # fmt: skip


def test_a_row_a_task_with_all_three_models() -> None:
    table = quality_table(RECORD)
    first = ["STS-B", "80.00", "60.00", "72.00", "90 %", "+12.00 (+11.00 … +13.00)", "−8.00 (−9.00 … −7.00)"]
    assert table.rows[0] == first
    assert table.rows[1][4] == "", "no share of nothing"


def test_costs_with_their_ratios() -> None:
    rows = {row[0]: row[1:] for row in cost_table(RECORD).rows}
    assert rows["texts a second"] == ["100", "420", "4.2 times as fast"]
    assert rows["weights, MB"] == ["90.0", "26.0", "29 %"]
    assert rows["memory, MB"] == ["180.0", "not measured", ""]


def test_one_line_and_one_verdict() -> None:
    assert kept_line(RECORD) == ("keeps 90 % of the points of large, is 4.2 times as fast, and has 29 % of its weights")
    verdict = compression_verdict(RECORD)
    assert (verdict.before, verdict.after, verdict.scores) == ("large", "the student", (0.8, 0.72))
    assert verdict.advice.endswith("Use it where large is too slow or too large. Training it gained +12.00 points.")
    cost = {**RECORD["cost"], "faster": {"median": 0.9, "low": 0.8, "high": 1.0}, "weights": [10, 14]}
    larger = compression_verdict({**RECORD, "cost": cost})
    assert "is not faster, and is not smaller. Keep large." in larger.advice
    smaller = {**RECORD, "cost": {**RECORD["cost"], "faster": cost["faster"]}}
    assert "Use it where large is too large." in compression_verdict(smaller).advice, "it is not faster"
