"""The pairs that select and those that judge."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import read_pairs
from isotrope.run.pairs import dev_names, dev_pairs, named_pairs


def test_half_of_the_users_pairs_select_and_the_other_half_judges(pairs_file: Path) -> None:
    judging, selecting = named_pairs(str(pairs_file), [], None, None)
    whole, kept, held = read_pairs(pairs_file), selecting["pairs"], judging["pairs"]["test"]
    assert len(kept) == len(held) == len(whole) // 2
    assert sorted([*kept.first, *held.first]) == sorted(whole.first)
    again = named_pairs(str(pairs_file), [], None, None)[1]["pairs"]
    assert again.checksum() == kept.checksum()


def test_with_a_test_set_named_all_dev_pairs_select(pairs_file: Path) -> None:
    judging, selecting = named_pairs(str(pairs_file), [], "none", None)
    assert not judging
    assert len(selecting["pairs"]) == 120


def test_none_and_several_names(pairs_file: Path, tmp_path: Path) -> None:
    assert dev_names(["stsb,none", "a.tsv"]) == ["stsb", "a.tsv"]
    assert named_pairs("none", ["stsb"], None, None) == ({}, {})
    other = shutil.copy(pairs_file, tmp_path / "other.tsv")
    assert set(dev_pairs([str(pairs_file), str(other)], None)) == {"pairs", "other"}
    with pytest.raises(UserError, match="two dev sets are called 'pairs'"):
        dev_pairs([str(pairs_file), str(pairs_file)], None)
