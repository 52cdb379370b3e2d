"""A cell's folder: a record that is damaged, or whose files are, does not count."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from isotrope.study.cell import Cell
from isotrope.study.progress import Board
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


def test_progress_shows_rows_seeds_and_means(corpus_file: Path, tmp_path: Path) -> None:
    made = planned(spec_of(tmp_path, corpus_file, "[run]\nseeds = 4\n[rows.A]\n"), tmp_path)
    *_, last = measured(made, lambda cell: {"Avg.": 50.0 + cell.seed}).cells.values()
    (last.folder / "result.json").unlink()
    shown = Console(width=120, record=True, file=io.StringIO())
    shown.print(Board(made, 2, shown))
    text = shown.export_text()
    for said in ("3 of 4", "51.00", "1 of 4 cells left"):
        assert said in text


def test_what_is_left_is_said_with_each_cell(corpus_file: Path, tmp_path: Path) -> None:
    made = planned(spec_of(tmp_path, corpus_file, "[run]\nseeds = 2\n[rows.A]\n[rows.B]\npreset = 'dclr'\n"), tmp_path)
    said = Console(record=True, width=200, file=io.StringIO())
    board = Board(made, 1, said)
    first, second, *_ = made.cells.values()
    board.started(first)
    measured(made, lambda _: {"Avg.": 50.0})
    record = first.record()
    assert record is not None
    board.finished(first, record)
    board.started(second)
    board.failed(second, "no memory")
    lines = said.export_text().splitlines()
    assert lines[0].startswith(f"{first.label}, seed 0: Avg. 50.00 (0 s); {len(made.cells) - 1} of {len(made.cells)}")
    assert lines[1] == f"{second.label}, seed {second.seed} failed: no memory"
    assert board.lost == {second.key: "no memory"}
