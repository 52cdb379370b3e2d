"""A cell's folder: a record that is damaged, or whose files are, does not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isotrope.study.cell import Cell
from studies import measured, planned, spec_of


@pytest.fixture
def cell(corpus_file: Path, tmp_path: Path) -> Cell:
    """A finished one."""
    made = planned(spec_of(tmp_path, corpus_file, "[run]\nseeds = 1\n[rows.A]\n"), tmp_path)
    (cell,) = measured(made, lambda _: {"Avg.": 50.0}, draws=9).cells.values()
    assert cell.finished
    assert not cell.damaged
    return cell


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"scores": {"Avg.": 1', "[" * 100_000, "\0"])
def test_a_damaged_record_counts_as_missing(cell: Cell, text: str) -> None:
    cell.result.write_text(text)
    assert cell.record() is None
    assert not cell.finished
    assert cell.damaged


@pytest.mark.parametrize(("key", "value"), [("scores", 3), ("scores", None), ("key", "of another"), ("files", {})])
def test_a_record_with_a_wrong_value_counts_as_missing(cell: Cell, key: str, value: object) -> None:
    cell.result.write_text(json.dumps(json.loads(cell.result.read_text()) | {key: value}))
    assert cell.damaged


@pytest.mark.parametrize("size", [0, 100, None])
def test_a_damaged_file_beside_the_record_counts_too(cell: Cell, size: int | None) -> None:
    file = cell.folder / "draws.npz"
    if size is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:size])
    assert cell.damaged
    assert not cell.finished


def test_a_cell_without_a_record_is_not_damaged(cell: Cell) -> None:
    cell.result.unlink()
    assert not cell.damaged
    assert not cell.finished
