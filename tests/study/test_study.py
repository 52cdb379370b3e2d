"""A whole study: what it leaves, that it is never run twice, kills. A search, which the dev pairs
alone judge.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch

from helpers.commands import in_process
from helpers.refusals import refused
from helpers.studies import numbers, quiet, write_study
from helpers.words import sentences
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.preset.preset import read_preset
from isotrope.store.files import Record
from isotrope.study import Study, study
from isotrope.study.analyse import recomputed
from isotrope.study.document import study_pages
from isotrope.study.record import CellResult, StudyRecord
from isotrope.study.search import draw_trials, search_settings
from isotrope.study.spec import Range, TeacherSettings, read_study
from isotrope.study.tuned import with_tuned
from isotrope.study.verify import RecordedCell, compared, verify

Cells = dict[Path, Record]


@pytest.fixture(scope="module")
def cells(finished: Study) -> Cells:
    """The files of the cells, and what is in them."""
    paths = finished.folder.glob("cells/*/result.json")
    return {path: json.loads(path.read_text()) for path in paths}


def test_every_row_has_its_seeds(finished: Study) -> None:
    assert not finished.failed
    seeds = {row.label: len(row.scores) for row in finished.record.rows}
    assert seeds == {"SimCSE": 2, "ListMLE": 2, "before": 1, "simcse": 1}


def test_what_cells_share_is_recorded_once(finished: Study, cells: Cells) -> None:
    assert len(cells) == 6, "two rows of two seeds, the backbone as it is, the teacher"
    assert len(finished.record.environments) == 1
    assert 1 < len(finished.record.settings) < 5
    assert len(finished.record.data) == 2, "with and without training"


def test_the_record_has_what_the_cells_have(finished: Study, cells: Cells) -> None:
    for cell in cells.values():
        key = cell["key"]
        summary = finished.record.cells[key]
        assert finished.record.data[summary.data] == cell["data"]
        assert finished.record.environment_of(key) == cell["environment"]
        assert finished.record.settings_of(key)["encoder"]["pooling"] == "mean"
        assert (summary.seconds, summary.seed) == (cell["seconds"], cell["seed"])


def test_a_cell_says_what_it_was_made_of(finished: Study, cells: Cells) -> None:
    for cell in cells.values():
        assert cell["environment"]["packages"]["torch"]
        assert cell["data"]["tests"]
        assert str(finished.folder) not in json.dumps(cell), "no path of this machine"
        if cell["label"] != "before":
            assert cell["scores"]["memory"] > 0
            assert cell["data"]["corpus"]["key"]
            assert cell["settings"]["train"]["batch_size"] == 16


def test_only_the_teachers_model_is_kept(cells: Cells) -> None:
    for path, cell in cells.items():
        assert path.with_name("model").is_dir() == (cell["label"] == "simcse")
        assert not path.with_name("run").exists()


@pytest.fixture
def record(finished: Study) -> StudyRecord:
    """The record as it was written, to be changed."""
    return StudyRecord.read(finished.folder)


def test_the_record_names_no_path(finished: Study, tiny_model: Path) -> None:
    text = (finished.folder / "study.json").read_text()
    assert str(tiny_model) not in text
    assert str(finished.folder) not in text


def test_the_record_alone_gives_the_pages_again(finished: Study, record: StudyRecord) -> None:
    assert recomputed(record) == record
    pages = study_pages(recomputed(record), finished.folder)
    assert {name: (finished.folder / name).read_text() for name in pages} == pages


def test_the_pages_show_scores_beside_what_was_published(
    finished: Study, record: StudyRecord
) -> None:
    page = (finished.folder / "table.md").read_text()
    scores = [*record.rows[0].column_scores("Avg.").values()]
    assert f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}" in page
    for words in ("published (RankCSE Table 2)", "76.25", "DiffCSE, published", "A note."):
        assert words in page
    assert "before (not trained)" in page
    assert "ranking helps" in page


def test_every_figure_is_drawn_and_shown(finished: Study) -> None:
    page = (finished.folder / "table.html").read_text()
    for name in ("curves", "cosines", "bars"):
        assert (finished.folder / f"{name}.svg").read_text().lstrip().startswith("<?xml")
        assert f'<figure id="{name}">' in page


def test_the_tests_are_those_of_the_scores(record: StudyRecord) -> None:
    difference, _ = record.differences
    assert difference.pairs
    assert difference.seeds
    assert difference.pairs.low < difference.seeds.mean < difference.pairs.high
    record.rows[0].scores[0]["Avg."] += 1
    assert recomputed(record).differences != record.differences


def test_finished_cells_are_never_run_again_and_seeds_only_add(
    finished: Study, small: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished.folder, tmp_path / "out")

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/cells/*/result.json")}

    before = times()
    more = study(small, output=tmp_path / "out", console=quiet(), seeds=3, rows=["SimCSE"])
    assert more.record == StudyRecord.read(tmp_path / "out")
    (scores,) = (row.scores for row in more.record.rows)
    assert len(scores) == 3
    assert scores.items() > finished.record.rows[0].scores.items()
    assert len(times()) == len(before) + 1
    assert times().items() > before.items()


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_table(
    finished: Study, small: Path, tmp_path: Path
) -> None:
    """SIGKILL of the study when its second cell is done, none of its processes lives on; the same
    call ends alike.
    """
    code = (
        "import sys, torch; from isotrope.study import study\n"
        "if __name__ == '__main__':\n    study(sys.argv[1], output=sys.argv[2], workers=2)\n"
    )
    script = tmp_path / "go.py"
    script.write_text(code)
    running = subprocess.Popen(
        [sys.executable, str(script), str(small), str(tmp_path / "out")], stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 240
    while (
        len(done := list(tmp_path.glob("out/cells/*/result.json"))) < 2 and time.monotonic() < until
    ):
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert 2 <= len(done) < 6, "killed in the middle"
    resumed = study(small, output=tmp_path / "out", workers=2, console=quiet())
    assert numbers(resumed.record.as_json()) == numbers(finished.record.as_json())


SEARCH = """
[rows.SimCSE]
[rows."SimCSE, then whitening"]
then = "whitening"
[rows.Whitened]
preset = "whitenedcse"
search = {{ "train.warmup" = [0.5] }}
[search]
trials = 2
documents = "{documents}"
[search.keys]
"train.warmup" = {{low = 0.0, high = 0.3}}
"views.sgw.groups" = [8, 16]
"""


@dataclass(frozen=True)
class Search:
    """A finished search for the settings of two trainings."""

    study: Path
    output: Path
    best: Path

    @property
    def rows(self) -> Record:
        return tomllib.loads(self.best.read_text())["rows"]

    @property
    def trials(self) -> list[Record]:
        paths = self.output.glob("cells/*/result.json")
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module")
def searched(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Search:
    folder = tmp_path_factory.mktemp("search")
    documents = folder / "own.txt"
    documents.write_text("\n".join(" ".join(sentences(4, seed)) for seed in range(60)))
    rows = SEARCH.format(documents=documents)
    file = write_study(folder, tiny_model, corpus_file, pairs_file, rows)
    output = folder / "out"
    return Search(file, output, search_settings(file, output=output, workers=2, console=quiet()))


def test_a_search_gives_every_training_its_trials(searched: Search) -> None:
    counts = {label: len(row["trials"]) for label, row in searched.rows.items()}
    assert counts == {"SimCSE": 2, "Whitened": 2}


def test_a_search_draws_the_keys_that_a_row_has(searched: Search) -> None:
    assert not any("sgw" in setting for setting in searched.rows["SimCSE"]["set"])
    whitened = read_preset("whitenedcse", searched.rows["Whitened"]["set"])
    assert whitened.views["sgw"]["groups"] in (8, 16)


def test_the_best_trial_has_the_highest_score_on_the_dev_pairs(searched: Search) -> None:
    for label, row in searched.rows.items():
        trials = [trial for trial in searched.trials if trial["label"].startswith(label)]
        assert row["dev"] == 100 * max(trial["selection"]["best_score"] for trial in trials)


def test_tasks_of_documents_score_each_trial_too(searched: Search) -> None:
    for row in searched.rows.values():
        assert min(trial["self-made"] for trial in row["trials"]) > 0


def test_no_trial_is_run_twice(searched: Search) -> None:
    text, count = searched.best.read_text(), len(searched.trials)
    search_settings(searched.study, output=searched.output, console=quiet())
    assert searched.best.read_text() == text
    assert len(searched.trials) == count


def test_the_rows_of_an_earlier_search_stay(searched: Search) -> None:
    text = searched.best.read_text()
    search_settings(searched.study, output=searched.output, rows=["Whitened"], console=quiet())
    assert searched.best.read_text() == text


def test_rows_get_the_settings_that_were_found(searched: Search) -> None:
    tuned = with_tuned(read_study(searched.study), searched.best).rows
    assert tuned["Whitened"].set == tuple(searched.rows["Whitened"]["set"])
    assert "train.warmup=0.5" in tuned["Whitened"].set, "its own key takes the place of the study's"
    first = tuple(searched.rows["SimCSE"]["set"])
    assert tuned["SimCSE, then whitening"].set == first, "one training, one search"


@pytest.fixture
def of_simcse(searched: Search, tmp_path: Path) -> Path:
    """A file with the settings of one row."""
    path = tmp_path / "of-one.toml"
    path.write_text(tomli_w.dumps({"rows": {"SimCSE": searched.rows["SimCSE"]}}))
    return path


def test_teachers_get_the_settings_of_a_row(searched: Search, of_simcse: Path) -> None:
    spec = read_study(searched.study)
    first = tuple(searched.rows["SimCSE"]["set"])
    assert with_tuned(spec, of_simcse, ["SimCSE"]).rows["SimCSE"].set == first
    own = TeacherSettings(preset="simcse", tuned="SimCSE")
    taught = spec.model_copy(update={"teachers": {"own": own}})
    assert with_tuned(taught, of_simcse, ["SimCSE"]).teachers["own"].set == first
    of_a_search = with_tuned(taught, of_simcse, search=True)
    assert of_a_search.teachers["own"].set == first
    assert of_a_search.rows == spec.rows


def test_settings_that_are_missing_are_refused(searched: Search, of_simcse: Path) -> None:
    spec = read_study(searched.study)
    with refused("no-effect"):
        with_tuned(spec, of_simcse, search=True)
    for study_file, settings in (
        (spec, of_simcse),
        (spec, searched.study),
        (read_study("tiny"), searched.best),
    ):
        with refused("no-settings"):
            with_tuned(study_file, settings)


def test_a_search_refuses_keys_that_no_row_has(
    write: Callable[[str], Path], tmp_path: Path
) -> None:
    known, unknown = "train.warmup", "views.sgw.groups"
    for place, own, common in (("rows.a.search", unknown, known), ("search.keys", known, unknown)):
        file = write(
            f'[rows.a]\nsearch = {{ "{own}" = [0.1] }}\n[search.keys]\n"{common}" = [0.1]\n'
        )
        with refused("no-such-component", place, unknown):
            search_settings(file, output=tmp_path / "out", console=quiet())
    assert not (tmp_path / "out").exists()


def test_trials_are_drawn_by_the_seed_and_more_of_them_begin_with_the_same() -> None:
    space = {"a": Range(low=1e-5, high=1e-3, log=True), "b": Range(low=0, high=1), "c": ("x", 2)}
    few, many = (draw_trials(space, count, seed=3) for count in (5, 40))
    assert many[:5] == few != draw_trials(space, 5, seed=4)
    values = [tomllib.loads("\n".join(trial)) for trial in many]
    assert all(1e-5 <= value["a"] <= 1e-3 and 0 <= value["b"] <= 1 for value in values)
    assert {value["c"] for value in values} == {"x", 2}
    assert sum(value["a"] < 1e-4 for value in values) > 10, "as many of each order of magnitude"
    assert sorted(draw_trials({"c": ("x", 2), "d": (1, 2)}, 9, 0)) == [
        ('c="x"', "d=1"),
        ('c="x"', "d=2"),
        ("c=2", "d=1"),
        ("c=2", "d=2"),
    ]
    assert draw_trials({}, 9, 0) == ((),)


# This record finds any change of the code that changes a study's numbers.
# If such a change is meant, delete it: the test below makes it again, and fails once.
KEPT = Path(__file__).with_name("kept") / "study.json"
STUDY = """
title = "Cells that take seconds"
[run]
sentences = 128
seeds = 1
backbone = "isotrope/tiny"
test = "dev-half"
positives = true
set = ["train.batch_size=32", "train.eval_steps=2", "train.epochs=1", "train.learning_rate=1e-3"]
[rows.WhitenedCSE]
preset = "whitenedcse"
set = ["encoder.pooling=first_last", "views.sgw.groups=128"]
[rows."Before training"]
train = false
set = ["encoder.pooling=mean"]
"""


def given(folder: Path) -> tuple[Path, list[str], list[str]]:
    """The study's file, its text and its labels, of the pairs that come with isotrope."""
    pairs = similarity_pairs()
    lines = zip(pairs.first, pairs.second, pairs.gold, strict=True)
    for name, text in {
        "kept.toml": STUDY,
        "text.txt": "\n".join(pairs.first),
        "pairs.tsv": "\n".join(f"{first}\t{second}\t{gold}" for first, second, gold in lines),
    }.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    return folder / "kept.toml", [str(folder / "text.txt")], [str(folder / "pairs.tsv")]


def test_a_kept_cell_gives_its_record_with_todays_code(tmp_path: Path) -> None:
    file, text, pairs = given(tmp_path)
    if not KEPT.is_file():
        study(file, output=tmp_path / "out", documents=text, dev=pairs, console=quiet())
        shutil.copyfile(tmp_path / "out" / "study.json", KEPT)
        pytest.fail("the record was made again: commit it if its difference is meant")
    found = verify(
        file,
        cell="WhitenedCSE, seed 0",
        output=KEPT.parent,
        documents=text,
        dev=pairs,
        console=quiet(),
    )
    assert not found.beyond, f"{found}: if that is meant, see KEPT"


def test_a_command_says_whether_a_drawn_cell_gives_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, (text,), (pairs,) = given(tmp_path)
    command = [
        "study",
        "verify",
        str(file),
        "--output",
        str(tmp_path),
        "--documents",
        text,
        "--dev",
        pairs,
    ]

    def said(record: object, *more: str) -> tuple[int, str]:
        (tmp_path / "study.json").write_text(json.dumps(record))
        code = in_process([*command, *more], monkeypatch)
        out = capsys.readouterr()
        return code, out.out + out.err

    assert said({})[0] == 2
    record = json.loads(KEPT.read_text())
    trained, raw = record["rows"]
    code, told = said(record, "--cell", "before training")
    assert (code, "did you mean 'Before training, seed 0'?" in told) == (2, True)
    raw["scores"]["0"]["Avg."] += 3
    code, told = said(record, "--cell", "Before training, seed 0")
    assert code == 1
    assert "differs from its record by more than 0.005 points: Avg. 25.07 → 22.07" in told.replace(
        "0.5", "0.005"
    )
    raw["scores"]["0"]["Avg."] -= 3
    elsewhere = deepcopy(record)
    elsewhere["environments"][0]["gpus"] = ["a GPU"] if not torch.cuda.is_available() else []
    code, told = said(elsewhere, "--cell", "WhitenedCSE, seed 0")
    assert (code, "where dropout draws other numbers" in told) == (2, True)
    trained["scores"] = {}
    assert said(record, "--seed", "3")[0] == 0
    raw["scores"].clear()
    assert said(record)[0] == 2


def test_other_versions_and_other_settings_are_told() -> None:
    record = StudyRecord.read(KEPT.parent)
    cell = RecordedCell(record.rows[1], 0)
    machine = record.environment_of(cell.key)
    now = CellResult(
        label="x",
        key=cell.key,
        preset="simcse",
        seed=0,
        settings=record.settings_of(cell.key),
        scores=cell.scores,
        environment=deepcopy(machine),
    )
    higher = cell.scores | {"Avg.": cell.scores["Avg."] + 0.1}
    near = now.model_copy(update={"scores": higher})
    assert compared(cell, record, now).beyond == []
    assert compared(cell, record, near).beyond == ["Avg."]
    del machine["packages"]["scipy"]  # as in a record of an older isotrope
    assert compared(cell, record, near).beyond == ["Avg."]
    kernels = machine.pop("kernels")  # in the oldest records
    assert compared(cell, record, near).beyond == [], "the processor may be another one"
    assert "the record does not name" in str(compared(cell, record, near))
    machine["kernels"] = kernels
    machine["packages"]["torch"] = "1.0"
    told = str(compared(cell, record, near))
    assert ": equal to its record within 0.5 points, at most 0.100 apart\nsince then: " in told
    assert "packages: torch = '1.0', not '" in told
    other_text = now.model_copy(update={"key": "y"})
    assert "other text, pairs, model files or tasks" in compared(cell, record, other_text).changed
    other = now.model_copy(update={"settings": now.settings | {"base": "other"}})
    assert any(one.startswith("base = ") for one in compared(cell, record, other).changed)
