"""The tables that papers print, of several models."""

from pathlib import Path

import numpy as np

from isotrope.evaluation.suite import main_scores, run
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
    result = run(Bag(), "sts", data)
    (table,) = scores.suite_tables("sts", {"bag": result})
    assert table.header[-1] == "Avg."
    assert table.rows[0][-1] == f"{100 * np.mean(list(main_scores('sts', result).values())):.2f}"


def test_a_measure_that_no_task_has_gets_no_table_and_one_that_some_have_gets_theirs() -> None:
    judged = {"ndcg@10": 0.5, "mrr@10": 0.4, "recall@10": 0.3, "recall@100": 0.2}
    two = {"m": {"a": judged, "b": judged}}
    assert [table.title for table in scores.suite_tables("retrieval", two)] == [
        f"retrieval: {name}" for name in ("nDCG@10", "MRR@10", "recall@10", "recall@100")
    ]
    last = scores.suite_tables("retrieval", {"m": {"a": judged, "b": judged | {"v_measure": 0.6}}})[-1]
    assert (last.title, last.header, last.rows) == ("retrieval: V-measure", ["model", "b"], [["m", "60.00"]])
