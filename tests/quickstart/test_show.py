"""What is shown at the end."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from isotrope.cli.main import app
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.quickstart.measures import MEANINGS
from isotrope.quickstart.show import show_result

RESULT = json.loads((ROOT / "docs" / "results" / "quickstart" / "quickstart.json").read_text())


def shown(folder: Path, width: int) -> str:
    """What is shown of the committed run."""
    out = io.StringIO()
    show_result(RESULT, folder, plain_console(file=out, width=width))
    return out.getvalue()


def test_what_is_told_names_every_figure_and_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = shown(tmp_path / "start", width=200)
    for name in ("retrieval", "similarity"):
        for model in ("before", "after"):
            assert f"{100 * RESULT['measures'][name][model]:.2f}" in told
    assert f"verdict: {RESULT['verdict']}; " in told
    assert f"report: {tmp_path / 'start' / 'report.html'}\n" in told
    for name, meaning in MEANINGS.items():
        assert f"{name}: {meaning}" in told
    command = re.search(r"isotrope (improve .*)", told)
    assert command is not None
    # the command that is shown is one that the command line takes: only the model is missing
    outcome = CliRunner().invoke(app, command[1].split())
    assert isinstance(outcome.exception, UserError)
    assert "YOUR-" in str(outcome.exception)


def test_a_measure_has_one_line_on_a_narrow_terminal(tmp_path: Path) -> None:
    table = shown(tmp_path, width=80).split("retrieval: ")[0].splitlines()
    (line,) = [line for line in table if line.split()[:1] == ["retrieval"]]
    for model in ("before", "after"):
        assert f"{100 * RESULT['measures']['retrieval'][model]:.2f}" in line


def test_a_path_is_never_markup(tmp_path: Path) -> None:
    folder = tmp_path / "[bold]" / "[/x]" / "r\udcff"
    assert f"model:  {tmp_path}/[bold]/[/x]/r\\udcff/improved/model\n" in shown(folder, width=80)
