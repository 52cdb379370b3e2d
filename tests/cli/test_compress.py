"""The command ``isotrope compress``: what it shows, and its one line for a mistake."""

from pathlib import Path

import pytest

from conftest import build_bert, sentences
from isotrope.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["isotrope", "compress", *map(str, words)])
    try:
        main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def test_it_shows_what_is_kept_and_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isotrope.compression.cost.peak_memory", lambda *_: 10**6)
    teacher, texts = build_bert(tmp_path / "bert", layers=3), tmp_path / "texts.txt"
    texts.write_text("\n".join(sentences(100)), encoding="utf-8")
    words = [teacher, texts, "--student", "layers:1", "--output", tmp_path / "out"]
    small = ["--set", "train.batch_size=16", "--set", "train.max_length=32", "--set", "terms.queue_kl.queue=32"]
    assert run(monkeypatch, *words, *small, "--set", "train.epochs=1") == 0
    shown = capsys.readouterr().out
    for part in ("Points kept", "Speed and size", "It keeps ", "verdict: ", "model: ", "report: "):
        assert part in shown
    assert run(monkeypatch, *words, *small, "--set", "train.epochs=2") == 2
    assert "was begun with" in capsys.readouterr().err
    assert run(monkeypatch, teacher, texts, "--student", "large", "--output", tmp_path / "other") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "other").exists()
