"""The diversity of positives as columns of a study."""

from __future__ import annotations

from pathlib import Path

from isotrope.study.plan import StudyPlan
from isotrope.study.run_cell import run_cell
from isotrope.study.spec import read_study
from studies import planned, write_study

ROWS = """
[rows.SimCSE]
preset = "simcse"
train = false
[rows.whitened]
preset = "whitenedcse"
set = ["views.sgw.groups=16"]
[rows."one pass"]
preset = "whitenedcse"
set = ["views.sgw.groups=16", "views.passes=1", "views.sgw.copies=3"]
train = false
[rows.raw]
preset = "whitenedcse"
set = ["views.sgw.groups=16", "encoder.dropout=0.2"]
train = false
[rows.behind]
train = false
then = "whitening:k=4"
"""


def test_whitening_makes_positives_more_diverse_and_a_column_shows_it(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, ROWS, seeds=1)
    file.write_text(file.read_text().replace("[run]", "[run]\npositives = true"))
    cells = planned(read_study(file), tmp_path / "out").cells.values()
    found = {cell.label: run_cell(cell)["scores"] for cell in cells}
    simcse, whitened, raw = found["SimCSE"], found["whitened"], found["raw"]
    assert simcse["feature diversity"] == simcse["diversity"] > 0, "nothing stands between the encoder and the head"
    for row in (whitened, raw):
        assert row["diversity"] > row["feature diversity"] > 0
    assert "feature diversity" not in found["one pass"], "one view lies apart from no other"
    assert 0 < found["one pass"]["diversity"] < whitened["diversity"]
    assert "diversity" not in found["behind"]


def test_it_decides_the_key_only_where_it_is_asked(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, "[rows.raw]\ntrain = false\n", seeds=1)

    def keys(**changes: object) -> set[str]:
        made: StudyPlan = planned(read_study(file, changes), tmp_path / "out")
        return set(made.cells)

    assert keys(sentences=48) == keys(sentences=96), "an untrained row reads no text"
    assert keys(sentences=48, positives=True) != keys(sentences=96, positives=True)
