"""Cells in processes of their own: failures, kills, Ctrl-C."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from conftest import sentences
from isotrope.console.plain import plain_console
from isotrope.errors import Stopped
from isotrope.store.mark import put_mark
from isotrope.study import Study, study
from isotrope.study.spec import read_study
from studies import numbers, planned, quiet, write_study

Write = Callable[..., Path]
RAW = "[rows.raw]\ntrain = false\n"
CLS = 'set = ["encoder.pooling=cls"]\n'


def test_a_failing_cell_is_reported_and_the_others_go_on(write: Write, tmp_path: Path) -> None:
    rows = """
    [rows.good]
    train = false
    [rows.pupil]
    preset = "rankcse-listmle"
    teachers = {rank = ["broken"]}
    [teachers.broken]
    preset = "whitenedcse"
    set = ["views.sgw.groups=5"]
    """
    file = write(rows)
    said = Console(record=True, width=200, file=io.StringIO())
    done = study(file, output=tmp_path / "out", console=said)
    assert len(done.failed) == 2
    assert any("groups = 5" in why and "choose" in why for why in done.failed.values())
    assert "a model that it needs failed" in done.failed.values()
    text = done.pages[0].read_text()
    assert "Not finished" in text
    (scores,) = done.record["rows"][0]["scores"].values()
    shown = said.export_text()
    assert "broken, seed 0 failed" in shown
    assert f"good, seed 0: Avg. {scores['Avg.']:.2f} (" in shown


def test_a_stopped_study_shows_what_is_finished(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when the first cell is done."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isotrope.study.execute._finished", stop)
    with pytest.raises(Stopped, match="the same command goes on"):
        study(write(f"{RAW}{RAW.replace('raw', 'cls')}{CLS}"), output=tmp_path / "out", console=quiet())
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert record["scale"]["finished"] == 1
    assert "1 of 2 cells are finished" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.slow
def test_the_number_of_workers_changes_no_score(finished: Study, small: Path, tmp_path: Path) -> None:
    """A process uses as many threads as the study says, however many run beside it."""
    alone = study(small, output=tmp_path, rows=["SimCSE"], seeds=1, console=quiet()).record
    (scores,) = (row["scores"] for row in alone["rows"])
    beside = next(row["scores"] for row in finished.record["rows"] if row["label"] == "SimCSE")
    assert numbers(scores["0"]) == numbers(beside["0"])
    assert {environment["threads"] for environment in alone["environments"]} == {1}


def test_a_damaged_cell_is_run_again_and_that_is_said(write: Write, tmp_path: Path) -> None:
    file = write(RAW)
    first = study(file, output=tmp_path / "out", console=quiet())
    (result,) = tmp_path.glob("out/cells/*/result.json")
    for damage in ("{}", result.read_text()[:99]):
        result.write_text(damage)
        said = Console(record=True, width=200, file=io.StringIO())
        again = study(file, output=tmp_path / "out", console=said)
        assert numbers(again.record) == numbers(first.record)
        (line,) = (line for line in said.export_text().splitlines() if "damaged" in line)
        assert "raw, seed 0 is run again" in line


def test_nothing_foreign_is_deleted_or_written_to(write: Write, tmp_path: Path) -> None:
    file = write(f"[rows.SimCSE]\n{RAW}")
    trained, raw = planned(read_study(file), tmp_path / "out").cells.values()
    for folder in (trained.folder, raw.folder):
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "mine.txt").write_text("mine")
    put_mark(tmp_path / "out", "study")
    (tmp_path / "out" / "job.json").write_text("{}")
    raw.job.begin()
    put_mark(raw.folder, "cell")
    done = study(file, output=tmp_path / "out", console=quiet())
    assert done.failed.keys() == {trained.key}, "what is not trained needs no run"
    assert "is not empty and holds no cell" in done.failed[trained.key]
    assert [path.name for path in trained.folder.iterdir()] == ["run"]
    put_mark(trained.folder, "cell")
    done = study(file, output=tmp_path / "out", console=quiet())
    assert "holds run, but no job.json" in done.failed[trained.key]
    for folder in (trained.folder, raw.folder):
        assert (folder / "run" / "mine.txt").read_text() == "mine"


def test_names_are_text_and_not_markup(tiny_model: Path, pairs_file: Path, tmp_path: Path) -> None:
    """Rows, titles, figures and files may be called anything, on any console."""
    corpus = tmp_path / "[bold" / "x].txt"
    corpus.parent.mkdir()
    corpus.write_text("\n".join(sentences(200)))
    rows = """[rows."[/x] é $\\\\frac$"]
    train = false
    [rows."[red]"]
    preset = "whitenedcse"
    set = ["views.sgw.groups=7"]
    [figures.bars]
    kind = "bars"
    title = "[/figure] $x^$"
    """
    file = write_study(tmp_path, tiny_model, corpus, pairs_file, rows, seeds=1)
    file.write_text(file.read_text().replace("A small study", "[/title]"))
    for console in (Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True), in_ascii()):
        done = study(file, output=tmp_path / "out", console=console)
        assert len(done.failed) == 1
    text = (tmp_path / "out" / "table.md").read_text()
    for name in ("[/title]", "[/x] é $\\frac$", "[red]", "[/figure] $x^$"):
        assert name in text
    assert "$\\frac$" in (tmp_path / "out" / "bars.svg").read_text()


def in_ascii() -> Console:
    return plain_console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
