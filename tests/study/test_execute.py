"""Cells in processes of their own: failures, kills, Ctrl-C."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from helpers.refusals import refused
from helpers.studies import numbers, quiet
from helpers.words import sentences
from isotrope.console.plain import plain_console
from isotrope.errors import Stopped
from isotrope.store.files import put_mark
from isotrope.study import Study, study
from isotrope.study.plan import StudyPlan
from isotrope.study.run_cell import run_cell

Write = Callable[[str], Path]
RAW = "[rows.raw]\ntrain = false\n"
CLS = 'set = ["encoder.pooling=cls"]\n'


def test_a_failing_cell_is_reported_and_the_others_go_on_whatever_they_are_called(
    write: Write, tmp_path: Path
) -> None:
    """Rows, titles, figures and files may have signs of rich, Markdown and TeX, and consoles may
    not know them.
    """
    rows = """[rows."[/x] é $\\\\frac$"]
    train = false
    [rows."[red]"]
    preset = "rankcse-listmle"
    set = ['teachers.rank.models=["broken"]']
    [teachers.broken]
    preset = "whitenedcse"
    set = ["views.sgw.groups=5"]
    [figures.bars]
    kind = "bars"
    title = "[/figure] $x^$"
    """
    file = write(rows)
    (corpus := tmp_path / "[bold" / "x].txt").parent.mkdir()
    corpus.write_text("\n".join(sentences(200)))
    file.write_text(file.read_text().replace("A small study", "[/title]"))
    said = plain_console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=200)
    said.record = True
    done = study(file, output=tmp_path / "out", documents=[str(corpus)], console=said)
    assert len(done.failed) == 2
    assert any("groups = 5" in why and "choose" in why for why in done.failed.values())
    assert "a model that it needs failed" in done.failed.values()
    (scores,) = done.record.rows[0].scores.values()
    shown = said.export_text()
    assert "broken, seed 0 failed" in shown
    assert f"[/x] ? $\\frac$, seed 0: Avg. {scores['Avg.']:.2f} (" in shown
    text = done.pages[0].read_text()
    for name in ("Not finished", "[/title]", "[/x] é $\\frac$", "[red]", "[/figure] $x^$"):
        assert name in text
    assert "$\\frac$" in (tmp_path / "out" / "bars.svg").read_text()


def test_a_stopped_study_shows_what_is_finished(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C when the first cell is done."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isotrope.study.execute._finished_line", stop)
    with pytest.raises(Stopped, match="the same command goes on"):
        study(
            write(f"{RAW}{RAW.replace('raw', 'cls')}{CLS}"),
            output=tmp_path / "out",
            console=quiet(),
        )
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert record["scale"]["finished"] == 1
    assert "1 of 2 cells are finished" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.slow
def test_the_number_of_workers_changes_no_score(
    finished: Study, small: Path, tmp_path: Path
) -> None:
    """A process uses one thread, however many run beside it."""
    alone = study(small, output=tmp_path, rows=["SimCSE"], seeds=1, console=quiet()).record
    assert numbers(alone.rows[0].scores[0]) == numbers(finished.record.rows[0].scores[0])
    assert {environment["threads"] for environment in alone.environments} == {1}


def test_a_damaged_cell_is_run_again_and_that_is_said(write: Write, tmp_path: Path) -> None:
    file = write(RAW)
    first = study(file, output=tmp_path / "out", console=quiet())
    (result,) = tmp_path.glob("out/cells/*/result.json")
    result.write_text(result.read_text()[:99])
    said = Console(record=True, width=200, file=io.StringIO())
    again = study(file, output=tmp_path / "out", console=said)
    assert numbers(again.record.as_json()) == numbers(first.record.as_json())
    assert "is damaged: raw, seed 0 is run again" in " ".join(said.export_text().split())


def test_nothing_foreign_is_deleted_or_written_to(plan: Callable[..., StudyPlan]) -> None:
    trained, raw = plan(f"[rows.SimCSE]\n{RAW}").cells.values()
    for folder in (trained.folder, raw.folder):
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "mine.txt").write_text("mine")
    raw.job.begin()
    put_mark(raw.folder, "cell")
    assert run_cell(raw).scores, "what is not trained needs no run"
    with refused("folder-is-not-ours"):
        run_cell(trained)
    assert [path.name for path in trained.folder.iterdir()] == ["run"]
    for folder in (trained.folder, raw.folder):
        assert (folder / "run" / "mine.txt").read_text() == "mine"
