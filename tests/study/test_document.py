"""The pages: what they say, and that what a row is called is text."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.study.analyse import study_record
from isotrope.study.document import seeds_of, study_pages
from studies import measured, planned, spec_of


@pytest.mark.parametrize(
    ("finished", "said"),
    [([3, 3], "3 seeds"), ([3, 5, 0], "3 to 5 seeds"), ([1], "one seed"), ([0, 0], "4 seeds")],
)
def test_the_seeds_that_are_told_are_those_that_are_finished(finished: list[int], said: str) -> None:
    rows = [{"kind": "row", "scores": dict.fromkeys(range(n))} for n in finished]
    rows.append({"kind": "teacher", "scores": {0: None}})
    assert seeds_of({"rows": rows, "scale": {"seeds": 4}}) == said


def test_a_lost_teacher_is_told_of(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nbackbone = "isotrope/tiny"\nseeds = 1\n[rows.rank]\npreset = "rankcse-listmle"\n'
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    teacher, row = made.cells
    record = study_record(made, {teacher: "the memory is full", row: "a model that it needs failed"}) | {"figures": {}}
    assert "the memory is full" in study_pages(record)["table.md"]


def test_pages_escape_what_a_row_is_called(corpus_file: Path, tmp_path: Path) -> None:
    rows = """[run]\nseeds = 2\n[rows."φ_1 < x^2 & 5 %"]\n[rows."a|b"]\nset = ["views.passes=3"]\n"""
    made = measured(planned(spec_of(tmp_path, corpus_file, rows), tmp_path), lambda cell: {"Avg.": 50.0 - cell.seed})
    text = study_pages(study_record(made) | {"figures": {}})
    tables = "".join(line for line in text["table.tex"].splitlines(keepends=True) if not line.startswith("%"))
    assert r"$\varphi$\_1 $<$ x\textasciicircum{}2 \& 5 \%" in tables
    assert tables.isascii(), "so that any LaTeX takes it"
    assert "φ_1 &lt; x^2 &amp; 5 %" in text["table.html"]
    assert r"a\|b" in text["table.md"]
