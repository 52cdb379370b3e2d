"""A study's file: every mistake is one line that names it."""

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.study.spec import read_study
from studies import planned

BAD = {
    'title = "t"\n[rows.a]\npresett = "simcse"': "rows.a.presett is an unknown key",
    'title = "t"\n[rows.a]\npreset = "simcze"': "row 'a': preset 'simcze' is unknown",
    'title = "t"\n[rows.a]\nset = ["train.batch_sizes=3"]': "train.batch_sizes is an unknown key",
    'title = "t"\n[rows]': "rows",
    '[rows.a]\npreset = "simcse"': "title is missing",
    'title = "t"\n[rows.a]\n[run]\nseeds = 0': "run.seeds = 0 is not possible",
    'title = "t"\n[rows.a]\npublished = {"STS-12" = 3}': "'STS-12' is not possible",
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "b"\nthan = "a"\ntext = ""': "names 'b', which is not a row",
    'title = "t"\n[rows.a]\n[run]\nbaseline = "b"': "run.baseline names 'b'",
    'title = "t"\n[rows.a]\nteachers = {guide = ["x"]}': "has no teacher 'guide'",
    'title = "t"\n[rows.a]\n[run]\nset = ["terms.listnett.temperature=1"]': "no row has such a component",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.001]}\n[run]\nsentences = 100': "do not fill a batch",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.5]}': "sentences = 0.5 is not possible",
    'title = "t"\n[rows.a]\n[run]\nsuites = ["transfers"]': "'transfers' is not possible",
    'title = "t"\n[rows.a]\n[run.suites]\ntransfer = {setting = "quick"}': "suite transfer has no",
    'title = "t"\n[rows.a]\n[run.suites]\nretrieval = {tasks = ["FIQA"]}': "suite retrieval has no task 'FIQA'",
    'title = "t"\n[rows.a]\n[run.suites]\nretrieval = {length = 3}': "length is an unknown key",
    'title = "t"\n[rows.a]\n[run.suites]\nretrieval = {max_length = 2}': "max_length = 2 is not possible",
    'title = "t"\n[rows.a]\npreset = "rankcse-listnet"\n[teachers.simcse]\npreset = "rankcse-listnet"': "needs itself",
    'title = "t': "not valid TOML",
    'title = "t"\n[rows.a]\nscale = "train.learning_rate"': "'train.learning_rate' is not possible",
    'title = "t"\n[rows.a]\ntrain = false\nsweep = {"train.epochs" = [1]}': "rows.a.sweep has no effect",
    'title = "t"\n[rows.a]\ntrain = false\nsentences = 9': "rows.a.sentences has no effect",
    'title = "t"\n[rows.a]\ntrain = false\nthen = "whitening"\nsweep = {"train.epochs" = [1]}': "a.sweep has no effect",
    'title = "t"\n[rows.a]\nvectors = true\npreset = "dclr"\n': "rows.a.preset has no effect",
    'title = "t"\n[rows.a]\n[run]\nvectors = "glove.txt"': "run.vectors has no effect",
    'title = "t"\n[rows.a]\nsweep = {seed = [1]}\npublished = {STS12 = 1}': "rows.a.published has no effect",
    'title = "t"\n[rows.a]\n[rows.b]\nvectors = true': "rows.b has word vectors, and no file is named",
    'title = "t"\n[rows.b]\nvectors = true\n[run]\nvectors = "missing.tsv"': "missing.tsv",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "bars"\ntitle = ""\nx = "y"': "figures.f.x has no effect",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "cosines"\ntitle = ""\ncolumns = ["dev"]': "f.columns has no effect",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "curve"\ntitle = ""': "a run logs only dev, alignment, uniformity",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "sweep"\ntitle = ""\nx = "train.epochs"': "is not a key that is swept",
    'title = "t"\n[rows.a]\nsweep = {"encoder.pooling" = ["cls"]}\n[figures.f]\nkind = "sweep"\ntitle = ""\n'
    'x = "encoder.pooling"': "which is not a key that is swept over numbers",
    'title = "t"\n[rows.a]\nsweep = {"train.epochs" = [1, 1]}': "two rows are 'a, epochs = 1'",
    'title = "t"\n[rows.a]\n[run]\nthreads = 0': "run.threads = 0 is not possible",
    'title = "t"\n[rows.a]\n[figures."../f"]\nkind = "bars"\ntitle = ""': "../f",
    'title = "t"\n[rows.a]\n[run]\ndev = ["missing.tsv"]': "missing.tsv does not exist",
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
