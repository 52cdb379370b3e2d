"""Figures: one a kind, from the cells that are finished alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope.store.records import RecordLog
from isotrope.study.analyse import study_record
from isotrope.study.cell import Cell
from isotrope.study.figures import draw
from isotrope.study.plan import StudyPlan
from isotrope.training.folder import write_cosines
from studies import planned, spec_of

SWEPT = '[run]\nseeds = 2\n[rows.A]\nsweep = {"train.epochs" = [1, 2, 40]}\n'
KINDS: dict[str, str] = {
    "bars": "",
    "plane": "",
    "cosines": "",
    "in_batch": "",
    "curve": 'columns = ["uniformity", "dev"]\n',
    "sweep": 'x = "train.epochs"\n',
}


@pytest.fixture(params=KINDS)
def made(request: Any, corpus_file: Path, tmp_path: Path) -> StudyPlan:
    figure = f'[figures.f]\nkind = "{request.param}"\ntitle = "T"\n{KINDS[request.param]}'
    made = planned(spec_of(tmp_path, corpus_file, SWEPT + figure), tmp_path)
    for cell in made.cells.values():
        cell.numbers.mkdir(parents=True)
        finish(cell)
    return made


class _Pairs:
    gold = np.linspace(0, 5, 30)


def finish(cell: Cell) -> None:
    """Give a cell all that a figure may read."""
    sets: Any = {"STSBenchmark": {"test": _Pairs()}}
    write_cosines(cell.numbers / "after.npz", sets, {"STSBenchmark": {"test": np.linspace(-0.5, 1, 30)}})
    log = RecordLog(cell.numbers / "metrics.jsonl")
    for step in (10, 20):
        log.add({"step": step, "uniformity": -1.0, "score": 0.5})
    given = {"scores": {"Avg.": 50.0 + cell.seed, "alignment": 0.2, "uniformity": -2.0}, "in_batch": [1] * 40}
    known = {"preset": cell.row.preset, "seed": cell.seed, "settings": {}, "environment": {}, "data": {}, "seconds": {}}
    cell.finish(known | given)


def test_a_figure_is_drawn_and_the_same_for_the_same_numbers(made: StudyPlan, tmp_path: Path) -> None:
    assert draw(made, study_record(made), tmp_path) == {"T": "f.svg"}
    text = (tmp_path / "f.svg").read_bytes()
    assert draw(made, study_record(made), tmp_path) == {"T": "f.svg"}
    assert (tmp_path / "f.svg").read_bytes() == text


def test_damaged_cells_are_left_out(made: StudyPlan, tmp_path: Path) -> None:
    for cell in list(made.cells.values())[1:]:
        (cell.numbers / "after.npz").write_bytes(b"PK")
    assert draw(made, study_record(made), tmp_path) == {"T": "f.svg"}
    for cell in made.cells.values():
        (cell.folder / "result.json").write_text("{}")
    assert draw(made, study_record(made), tmp_path) == {}
