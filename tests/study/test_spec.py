"""A study's file, its rows and their sweeps, and the options over it: every mistake is one line that names it."""

from pathlib import Path
from typing import Any

import pytest

from isotrope.errors import UserError
from isotrope.study.rows import expand_rows
from isotrope.study.spec import read_study
from isotrope.study.study import with_options
from studies import planned, spec_of

BAD = {
    'title = "t"\n[rows.a]\npresett = "simcse"': "rows.a.presett is an unknown key",
    'title = "t"\n[rows.a]\npreset = "simcze"': "row 'a': preset 'simcze' is unknown",
    'title = "t"\n[rows.a]\nset = ["train.batch_sizes=3"]': "train.batch_sizes is an unknown key",
    '[rows.a]\npreset = "simcse"': "title is missing",
    'title = "t"\n[rows.a]\npublished = {"STS-12" = 3}': "'STS-12' is not possible",
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "b"\nthan = "a"\ntext = ""': "names 'b', which is not a row",
    'title = "t"\n[rows.a]\n[run]\nbaseline = "b"': "run.baseline names 'b'",
    'title = "t"\n[rows.a]\nteachers = {guide = ["x"]}': "the teacher 'guide' is unknown",
    'title = "t"\n[rows.a]\n[run]\nset = ["terms.listnett.temperature=1"]': "no row has such a component",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.001]}\n[run]\nsentences = 100': "do not fill a batch",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.5]}': "sentences = 0.5 is not possible",
    'title = "t"\n[rows.a]\n[run]\nsuites = ["transfers"]': "'transfers' is not possible",
    'title = "t"\n[rows.a]\n[run.suites]\ntransfer = {setting = "quick"}': "suite transfer: the setting 'quick' is",
    'title = "t"\n[rows.a]\n[run.suites]\nretrieval = {length = 3}': "length is an unknown key",
    'title = "t"\n[rows.a]\npreset = "rankcse-listnet"\n[teachers.simcse]\npreset = "rankcse-listnet"': "needs itself",
    'title = "t': "not valid TOML",
    'title = "t"\n[rows.a]\nscale = "train.learning_rate"': "'train.learning_rate' is not possible",
    'title = "t"\n[rows.a]\ntrain = false\nsweep = {"train.epochs" = [1]}': "rows.a.sweep has no effect",
    'title = "t"\n[rows.a]\ntrain = false\nsentences = 9': "rows.a.sentences has no effect",
    'title = "t"\n[rows.a]\nvectors = true\npreset = "dclr"\n': "rows.a.preset has no effect",
    'title = "t"\n[rows.a]\n[run]\nvectors = "glove.txt"': "run.vectors has no effect",
    'title = "t"\n[rows.a]\nsweep = {seed = [1]}\npublished = {STS12 = 1}': "rows.a.published has no effect",
    'title = "t"\n[rows.a]\n[rows.b]\nvectors = true': "rows.b has word vectors, and no file is named",
    'title = "t"\n[rows.b]\nvectors = true\n[run]\nvectors = "missing.tsv"': "missing.tsv",
    'title = "t"\n[rows.a]\nsweep = {"encoder.pooling" = ["cls"]}\n[figures.f]\nkind = "sweep"\ntitle = ""\n'
    'x = "encoder.pooling"': "which is not a key that is swept over numbers",
    'title = "t"\n[rows.a]\n[figures."../f"]\nkind = "bars"\ntitle = ""': "../f",
    'title = "t"\n[rows.a]\n[run]\ndev = ["missing.tsv"]': "missing.tsv does not exist",
    'title = "t"\n[rows.a]\n[search.keys]\n"train.warmup" = {low = 0, high = 1, log = true}': (
        "search.keys.train.warmup.low = 0.0 is not possible: choose a low that is at most high, and"
    ),
    'title = "t"\n[rows.a]\n[search.keys]\n"train.warmup" = {low = 2, high = 1}': "train.warmup.low = 2.0 is not",
}


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_is_one_line_that_names_file_and_remedy(text: str, corpus_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        planned(read_study(file, {"corpus": [str(corpus_file)], "test": "none"}), tmp_path)
    line = str(caught.value)
    assert BAD[text] in line
    assert any(name in line for name in ("wrong", "terms.listnett", "run.suites", "suite ", "missing.tsv"))
    assert "\n" not in line
    assert caught.value.remedy


def test_sweeps_make_rows(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[rows.D]\npreset = "dclr"\nsweep = {"scores.noise.ratio" = [0.5, 1.0], sentences = [0.5, 1, 300]}\n'
    rows += "[rows.E]\ntrain = false"
    spec = spec_of(tmp_path, corpus_file, rows)
    made = planned(spec, tmp_path)
    assert list(made.rows)[:2] == ["D, ratio = 0.5, sentences = 0.5", "D, ratio = 0.5, sentences = 1"]
    assert [made.cells[keys[0]].sentences for keys in made.rows.values()] == [250, 500, 300] * 2 + [500]
    assert len(expand_rows(spec, ["D"])) == 6
    assert list(expand_rows(spec, ["E"], {"train.epochs": [1, 2]})) == ["E"]
    with pytest.raises(UserError, match=r"two rows are called 'D, ratio = 0\.5, sentences = 0\.5, epochs = 1'"):
        expand_rows(spec, [], {"train.epochs": [1, 1.0000001]})
    assert made.cells[made.rows["D, ratio = 0.5, sentences = 1"][0]].settings["scores"]["noise"]["ratio"] == 0.5


def test_a_row_that_is_not_trained_sweeps_the_sentences_of_its_step(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nbackbone = "isotrope/tiny"\n[rows.white]\ntrain = false\nthen = "whitening"\n'
    rows += "sweep = {sentences = [1, 0.5]}\n[rows.raw]\ntrain = false\n"
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
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


def test_options_replace_their_settings_alone(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    run = 'corpus = "a.txt"\nbackbone = "isotrope/tiny"\nsentences = 500\nthreads = 2\ndev = ["none"]\nseeds = 4\n'
    file.write_text(f'title = "t"\n[run]\n{run}[rows.SimCSE]\n')
    plain, _ = with_options(file, {"output": tmp_path, "documents": [], "model": None, "sentences": None, "dev": ()})
    assert plain == read_study(file), "what is left out is as the file says"
    given: Any = {"documents": ["mine.txt"], "model": "m", "sentences": 64, "dev": ["stsb"], "threads": 1}
    changed = {"corpus": ("mine.txt",), "backbone": "m", "sentences": 64, "dev": ("stsb",), "threads": 1}
    assert with_options(file, {"output": tmp_path, **given})[0].run == plain.run.model_copy(update=changed)


def test_the_place_is_where_input_and_output_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    _, place = with_options("tiny", {"output": str(tmp_path), "overrides": ["train.epochs=2"]})
    assert (place.output, place.data, place.forced) == (tmp_path, None, ("train.epochs=2",))
    monkeypatch.setenv("ISOTROPE_DATA", "theirs")
    assert with_options("tiny", {"output": tmp_path})[1].data == "theirs"
    assert with_options("tiny", {"output": tmp_path, "data": Path("mine")})[1].data == "mine"
