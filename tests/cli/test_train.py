"""``isotrope train`` on names and texts that are no markup, no ASCII, and no UTF-8."""

import os
import shutil
from pathlib import Path

import pytest

from helpers.forks import code, command
from helpers.words import sentences

SETTINGS = ["train.batch_size=16", "train.eval_steps=2", "train.save_steps=2"]


def train(
    *words: object, cwd: Path, monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8"
) -> tuple[int, str, str]:
    """Exit code, output and errors of a training that is begun in a folder."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    monkeypatch.chdir(cwd)
    given = ["train", *map(str, words), "--dev", "none", "--labels", "none", *settings]
    ended = code(command(given, cwd.parent, encoding=encoding))
    return ended, *((cwd.parent / name).read_text(encoding) for name in ("out", "err"))


def test_data_is_no_markup_and_any_console_will_do(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that cleaning drops, and names of files, that rich would obey; a name that is not
    UTF-8; ASCII stdout.
    """
    tmp_path = tmp_path / "here"
    name = os.fsdecode(b"[/x] \xff\xe9.txt")
    lines = [*sentences(64), "[/x]" * 4000, "[/x] twice", "[/x] twice", "[bold", "[link=x]y"]
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    model = shutil.copytree(tiny_model, tmp_path / "[red]model[/y]")
    words = (name, "--output", "[/z]run", "--model", model)
    ended, out, err = train(*words, cwd=tmp_path, monkeypatch=monkeypatch, encoding="ascii")
    assert ended == 0, err
    assert "[/x]" in out
    assert "simcse from y]: 67 sentences" in out  # the last part of its path
    assert "model: [/z]run/model" in out


@pytest.mark.slow
def test_the_present_folder_is_a_fine_output(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    words = (corpus_file, "--output", ".", "--model", tiny_model, "--max-texts", "64")
    ended, _, err = train(*words, cwd=here, monkeypatch=monkeypatch)
    assert ended == 0, err
    assert (here / "model" / "model.safetensors").is_file()
    assert train(*words, cwd=here, monkeypatch=monkeypatch)[::2] == (0, "")
