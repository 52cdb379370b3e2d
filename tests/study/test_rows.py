"""Rows and their sweeps."""

from pathlib import Path

from isotrope.study.rows import expand_rows
from isotrope.study.spec import read_study
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


def test_evaluations_shrink_with_the_sentences(corpus_file: Path, tmp_path: Path) -> None:
    """The value of the preset, or of an override, times the share; 1 at least. The whole run is the same cell."""
    sweep = "sweep = {sentences = [1, 0.5, 0.33, 80]}"
    rows = f"""
[rows.D]
{sweep}
scale = "train.eval_steps"
[rows.again]
{sweep}
set = ["train.eval_steps=5"]
scale = ["train.eval_steps", "train.save_steps"]
[rows.plain]
"""
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    train = {label: made.cells[keys[0]].settings["train"] for label, keys in made.rows.items()}
    assert [t["eval_steps"] for t in train.values()] == [250, 125, 82, 40, 5, 2, 2, 1, 250]
    assert [t["save_steps"] for t in train.values()] == [500] * 4 + [500, 250, 165, 80, 500]
    assert made.rows["D, sentences = 1"] == made.rows["plain"]


def test_few_sentences_of_figure_5_are_evaluated(corpus_file: Path, tmp_path: Path) -> None:
    changes = {"corpus": [str(corpus_file)], "dev": ["none"], "test": "none", "sentences": 100_000}
    made = planned(read_study("dclr-figure5", changes), tmp_path)
    for keys in made.rows.values():
        cell = made.cells[keys[0]]
        steps = cell.settings["train"]["epochs"] * (cell.sentences or 0) // cell.settings["train"]["batch_size"]
        assert steps >= 3 * cell.settings["train"]["eval_steps"], cell.label
