"""Columns: what a finished cell's numbers are called."""

from __future__ import annotations

import pytest

from isotrope.study.columns import column_of, ordered, shown, suite_scores


def test_the_users_own_pairs_never_take_a_columns_name() -> None:
    assert column_of("STSBenchmark") == "STS-B"
    assert column_of("dev") == "dev pairs"
    assert column_of("minutes") == "minutes pairs"
    assert column_of("my pairs") == "my pairs"


def test_columns_stand_in_the_papers_order_after_the_users_own() -> None:
    assert ordered({"Avg.", "STS12", "mine", "uniformity"}) == ["mine", "STS12", "Avg.", "uniformity"]


def test_numbers_are_printed_as_in_the_papers() -> None:
    assert [shown(column, 1.23456) for column in ("Avg.", "uniformity", "memory")] == ["1.23", "1.235", "1.2"]


def test_a_suites_scores_are_points_and_its_average_is_of_the_papers_tasks() -> None:
    accuracies = {"MR": {"accuracy": 0.8}, "SST2": {"accuracy": 0.9}, "SST5": {"accuracy": 0.1}}
    assert suite_scores("transfer", accuracies) == pytest.approx({"MR": 80, "SST": 90, "Transfer Avg.": 85})
    geometry = {"alignment": 0.1, "uniformity": -2.0, "mean_cosine": 0.5}
    assert suite_scores("geometry", {"STS-B": geometry})["mean cosine"] == 0.5
    found = {"CACM": {"ndcg@10": 0.2}, "NPL": {"ndcg@10": 0.1}}
    assert suite_scores("retrieval", found) == pytest.approx({"CACM": 20, "NPL": 10, "nDCG Avg.": 15})
