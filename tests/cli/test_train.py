"""``isotrope train`` on names and texts that are no markup, no ASCII, and no UTF-8."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import sentences

SETTINGS = ["train.batch_size=16", "train.eval_steps=2", "train.save_steps=2"]


def train(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "isotrope.cli", "train", *words, "--dev", "none", "--labels", "none"]
    command += [word for setting in SETTINGS for word in ("--set", setting)]
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(list(map(os.fsencode, command)), cwd=cwd, capture_output=True, timeout=300, env=own)


def test_data_is_no_markup_and_any_console_will_do(tiny_model: Path, tmp_path: Path) -> None:
    """Lines that cleaning drops, and names of files, that rich would obey; a name that is not UTF-8; ASCII stdout."""
    name = os.fsdecode(b"[/x] \xff\xe9.txt")
    lines = [*sentences(64), "[/x]" * 4000, "[/x] twice", "[/x] twice", "[bold", "[link=x]y"]
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    model = shutil.copytree(tiny_model, tmp_path / "[red]model[/y]")
    words = (name, "--output", "[/z]run", "--model", model)
    done = train(*words, cwd=tmp_path, PYTHONIOENCODING="ascii", LANG="C", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert b"[/x]" in done.stdout
    assert b"simcse from y]: 67 sentences" in done.stdout  # the last part of its path
    assert b"model: [/z]run/model" in done.stdout


@pytest.mark.slow
def test_the_present_folder_is_a_fine_output(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    words = (corpus_file, "--output", ".", "--model", tiny_model, "--sentences", "64")
    done = train(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "model.safetensors").is_file()
    again = train(*words, cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, b"")
