"""The command ``isotrope improve``: its verdict, its exit codes, its one line for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.cli.main import main
from isotrope.errors import Stopped
from isotrope.improvement.race import Race
from library import write_library


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["isotrope", "improve", *map(str, words)])
    try:
        main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def test_it_shows_all_candidates_and_the_verdict(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Race, "trainings", lambda *_: None)
    library = write_library(tmp_path / "library.jsonl")
    assert run(monkeypatch, tiny_model, library, "--output", tmp_path / "out", "--minutes", 1) == 0
    shown = capsys.readouterr().out
    for words in ("keep", "soft whitening", "pooling cls", "verdict: ", "report.html"):
        assert words in shown
    assert run(monkeypatch, tiny_model, library, "--output", tmp_path / "out", "--minutes", 2) == 2
    assert "was begun with minutes" in capsys.readouterr().err


def test_a_stopped_race_ends_with_130_and_says_what_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Stopped("stopped; the best so far (soft whitening) is in out")

    monkeypatch.setattr("isotrope.improvement.improve.improve", stopped)
    assert run(monkeypatch, "isotrope/tiny", "documents", "--output", "out") == 130
    assert capsys.readouterr().err == "isotrope: stopped; the best so far (soft whitening) is in out\n"
