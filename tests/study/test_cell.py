"""A cell's folder: a record that is damaged, or whose files are, does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.study.cell import Cell
from studies import measured, planned, spec_of


@pytest.fixture
def cell(corpus_file: Path, tmp_path: Path) -> Cell:
    """A finished one."""
    made = planned(spec_of(tmp_path, corpus_file, "[run]\nseeds = 1\n[rows.A]\n"), tmp_path)
    (cell,) = measured(made, lambda _: {"Avg.": 50.0}, draws=9).cells.values()
    assert cell.record()
    assert not cell.damaged
    return cell


@pytest.mark.parametrize(
    ("name", "text"),
    [("result.json", ""), ("result.json", "{}"), ("result.json", '{"scores": 1'), ("numbers/draws.npz", "damaged")],
)
def test_a_damaged_record_or_a_damaged_file_beside_it_counts_as_missing(cell: Cell, name: str, text: str) -> None:
    (cell.folder / name).write_text(text)
    assert cell.record() is None
    assert cell.damaged


def test_a_cell_without_a_record_is_not_damaged(cell: Cell) -> None:
    (cell.folder / "result.json").unlink()
    assert cell.record() is None
    assert not cell.damaged
