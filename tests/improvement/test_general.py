"""What a choice changes on general English."""

from pathlib import Path

import pytest

from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sts import SimilaritySets
from isotrope.improvement.general import (
    SHIPPED,
    TEST_SETS,
    affordable_pairs,
    general_change,
    general_pairs,
    shipped_pairs,
)


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> SimilaritySets:
    """As a data folder gives them, whose two sets are the shipped pairs once more."""
    pairs = shipped_pairs()[SHIPPED]["test"]

    def read(folder: str, task: str, splits: list[str]) -> dict[str, GradedPairs]:
        assert (folder, splits) == ("folder", ["test"])
        return {"test": pairs}

    monkeypatch.setattr("isotrope.improvement.general.load_sts", read)
    monkeypatch.setenv("ISOTROPE_DATA", "folder")
    return general_pairs()


def test_sts_is_compared_if_a_data_folder_is_known(tiny_model: Path, sets: SimilaritySets) -> None:
    assert list(sets) == [SHIPPED, *TEST_SETS]
    model = load(tiny_model)
    change = general_change(model, model, {name: sets[name] for name in (SHIPPED, "STSBenchmark")})
    assert list(change.per_task) == [SHIPPED, "STSBenchmark"]
    assert change.per_task["STSBenchmark"].difference == 0


def test_without_a_data_folder_only_the_shipped_pairs_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    assert list(general_pairs()) == [SHIPPED]


def test_a_folder_without_the_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"senteval.* does not exist"):
        general_pairs(tmp_path)


def test_what_takes_too_long_is_not_compared(sets: SimilaritySets) -> None:
    assert affordable_pairs(sets, 1200, 4500) == sets
    assert list(affordable_pairs(sets, 60, 200)) == [SHIPPED]
