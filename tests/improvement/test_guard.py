"""The check of general similarity: the shipped pairs, and STS where a data folder is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import Sets
from isotrope.improvement.guard import GRADED, GUARDS, affordable_pairs, general_change, general_pairs, shipped_pairs


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Sets:
    """As a data folder gives them, whose two sets are the shipped pairs once more."""
    pairs = shipped_pairs()[GRADED]["test"]

    def read(folder: str, task: str, splits: list[str]) -> dict[str, Pairs]:
        assert (folder, splits) == ("folder", ["test"])
        return {"test": pairs}

    monkeypatch.setattr("isotrope.improvement.guard.load_sts", read)
    monkeypatch.setenv("ISOTROPE_DATA", "folder")
    return general_pairs()


def test_sts_is_compared_where_a_data_folder_is_known(tiny_model: Path, sets: Sets) -> None:
    assert list(sets) == [GRADED, *GUARDS]
    model = load(tiny_model)
    found = general_change(model, model, {task: sets[task] for task in (GRADED, "STSBenchmark")})
    assert list(found["per_task"]) == [GRADED, "STSBenchmark"]
    assert found["per_task"]["STSBenchmark"]["difference"] == 0


def test_without_one_the_shipped_pairs_are_compared_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    assert list(general_pairs()) == [GRADED]
    with pytest.raises(UserError, match="holds neither senteval"):
        general_pairs(tmp_path)


def test_what_takes_too_long_is_not_compared(sets: Sets) -> None:
    everything, seconds = affordable_pairs(sets, 1200, 4500)
    assert everything == sets
    assert 0 < seconds <= 120
    few, seconds = affordable_pairs(sets, 60, 200)
    assert list(few) == [GRADED]
    assert seconds > 6
