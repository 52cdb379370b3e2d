"""The command ``isotrope compress``: what it shows, and its one line for a mistake."""

from pathlib import Path

import pytest

from helpers.commands import Shell
from helpers.small_bert import build_bert
from helpers.words import sentences


def test_it_shows_what_is_kept_and_what_is_saved(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotrope.compression.cost.peak_memory", lambda *_: 10**6)
    teacher, texts = build_bert(tmp_path / "bert", layers=3), tmp_path / "texts.txt"
    texts.write_text("\n".join(sentences(100)), encoding="utf-8")
    words = ["compress", teacher, texts, "--student", "layers:1", "--output", tmp_path / "out"]
    small = [
        "--set",
        "train.batch_size=16",
        "--set",
        "train.max_length=32",
        "--set",
        "terms.queue_kl.queue=32",
    ]
    shown = shell(*words, *small, "--set", "train.epochs=1").out
    for part in ("Points kept", "Speed and size", "It keeps ", "verdict: ", "model: ", "report: "):
        assert part in shown
    shell(*words, *small, "--set", "train.epochs=2").is_mistake("was begun with")
    shell(
        "compress", teacher, texts, "--student", "large", "--output", tmp_path / "other"
    ).is_mistake("")
    assert not (tmp_path / "other").exists()
