"""Cosines in one file: what is written is read, and damage is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.training.cosines import read_cosines, write_cosines


def write(path: Path) -> None:
    drawn = np.random.default_rng(0)
    sets = {
        task: {part: Pairs(part, ["a"] * n, ["b"] * n, drawn.uniform(0, 5, n)) for part, n in parts.items()}
        for task, parts in {"STS12": {"MSRpar": 3, "OnWN": 4}, "<b>own pairs, ü": {"test": 2}}.items()
    }
    cosines = {
        task: {part: drawn.uniform(-1, 1, len(pairs)) for part, pairs in parts.items()} for task, parts in sets.items()
    }
    write_cosines(path, sets, cosines)
    found = read_cosines(path)
    assert {task: list(parts) for task, parts in found.items()} == {task: list(parts) for task, parts in sets.items()}
    for task, parts in sets.items():
        for part, pairs in parts.items():
            gold, values = found[task][part]
            assert np.array_equal(gold, pairs.gold)
            assert np.array_equal(values, cosines[task][part])


def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    write(tmp_path / "after.npz")
    write(tmp_path / "after.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["after.npz"], "whole, and in place of the old one"


def test_no_file_is_no_cosines(tmp_path: Path) -> None:
    assert read_cosines(tmp_path / "before.npz") == {}


@pytest.mark.parametrize("content", ["empty", "half", "text", "array", "objects", "no gold", "no part", "a folder"])
def test_damage_is_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "after.npz"
    write(path)
    if content in ("empty", "half"):
        path.write_bytes(path.read_bytes()[: 0 if content == "empty" else path.stat().st_size // 2])
    elif content == "text":
        path.write_text("no zip")
    elif content == "a folder":
        path.unlink()
        path.mkdir()
        assert read_cosines(path) == {}
        return
    elif content == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        keys = {"objects": ["a/b", "a/b/gold"], "no gold": ["a/b"], "no part": ["a", "a/gold"]}[content]
        values = np.array([None]) if content == "objects" else np.zeros(1)
        np.savez(path, **dict.fromkeys(keys, values))
    with pytest.raises(UserError, match=r"after\.npz is damaged: delete it"):
        read_cosines(path)


def test_every_byte_may_be_wrong(tmp_path: Path) -> None:
    """Each in turn: a wrong one is told of, or lies where it decides nothing."""
    path = tmp_path / "after.npz"
    pairs = Pairs("test", ["a"] * 2, ["b"] * 2, np.array([1.0, 2.0]))
    write_cosines(path, {"own": {"test": pairs}}, {"own": {"test": np.array([0.5, 0.25])}})
    whole, told = path.read_bytes(), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            gold, cosines = read_cosines(path)["own"]["test"]
        except UserError:
            told += 1
        else:
            assert (gold.tolist(), cosines.tolist()) == ([1, 2], [0.5, 0.25]), place
    assert told > len(whole) / 2
