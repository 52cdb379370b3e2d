"""Rows and their sweeps."""

from __future__ import annotations

from pathlib import Path

from isotrope.study.rows import expand_rows
from studies import planned, spec_of


def test_sweeps_make_rows(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[rows.D]\npreset = "dclr"\nsweep = {"scores.noise.ratio" = [0.5, 1.0], sentences = [0.5, 1, 300]}\n'
    rows += "[rows.E]\ntrain = false"
    spec = spec_of(tmp_path, corpus_file, rows)
    made = planned(spec, tmp_path)
    assert list(made.rows)[:2] == ["D, ratio = 0.5, sentences = 0.5", "D, ratio = 0.5, sentences = 1"]
    assert [made.cells[keys[0]].sentences for keys in made.rows.values()] == [250, 500, 300] * 2 + [500]
    assert len(expand_rows(spec, ["D"])) == 6
    assert list(expand_rows(spec, ["E"], {"train.epochs": [1, 2]})) == ["E"]
    assert made.cells[made.rows["D, ratio = 0.5, sentences = 1"][0]].settings["scores"]["noise"]["ratio"] == 0.5


def test_an_untrained_row_with_a_step_behind_sweeps_the_sentences_of_the_step(
    corpus_file: Path, tmp_path: Path
) -> None:
    rows = (
        '[rows.white]\ntrain = false\nthen = "whitening"\nsweep = {sentences = [1, 0.5]}\n[rows.raw]\ntrain = false\n'
    )
    made = planned(spec_of(tmp_path, corpus_file, f'[run]\nbackbone = "isotrope/tiny"\n{rows}'), tmp_path)
    assert {label: made.cells[keys[0]].sentences for label, keys in made.rows.items()} == {
        "white, sentences = 1": 500, "white, sentences = 0.5": 250, "raw": 500,
    }  # fmt: skip
    assert len(made.cells) == 3
