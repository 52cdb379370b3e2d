"""``isotrope train`` on names and texts that are no markup, no ASCII, and no UTF-8."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import sentences
from isotrope.cli.main import app
from isotrope.errors import UserError
from isotrope.training.train import Run

SETTINGS = ["train.batch_size=16", "train.eval_steps=2", "train.save_steps=2"]


def train(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "isotrope.cli", "train", *words, "--dev", "none", "--test", "none"]
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
    words = (name, "--output", "[/z]run", "--backbone", model)
    done = train(*words, cwd=tmp_path, PYTHONIOENCODING="ascii", LANG="C", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert b"[/x]" in done.stdout
    assert b"[red]model[/y]" in done.stdout
    assert b"model: [/z]run/model" in done.stdout
    (tmp_path / "[/z]run" / "result.json").unlink()
    done = train(*words, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "[/z]run" / "result.json").is_file()


@pytest.mark.slow
def test_the_present_folder_is_a_fine_output(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    words = (corpus_file, "--output", ".", "--backbone", tiny_model, "--sentences", "64")
    done = train(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "model.safetensors").is_file()
    again = train(*words, "--resume", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("output", "said"),
    [("link", "link is a symbolic link: name the folder itself"), ("texts/run", "texts/run lies in the corpus folder")],
)
def test_an_output_that_is_a_link_or_in_the_corpus_is_refused(
    output: str, said: str, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(corpus_file, tmp_path / "texts" / "a.txt")
    (tmp_path / "link").symlink_to("elsewhere")
    done = train("texts", "--output", output, "--backbone", tiny_model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"isotrope: {said}")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("failed", [True, False])
def test_the_other_processes_are_left_however_it_ends(failed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, gloo's threads may abort Python at its end."""

    def run(settings: object) -> Run:
        if failed:
            raise UserError("no text", "give some")
        return Run(Path("run"), {})

    left: list[bool] = []
    monkeypatch.setattr("isotrope.training.train.run_training", run)
    monkeypatch.setattr("isotrope.training.processes.leave", lambda *, failed: left.append(failed))
    outcome = CliRunner().invoke(app, ["train", "text.txt", "--output", "run"])
    assert isinstance(outcome.exception, UserError) == failed
    assert left == [failed]


def test_a_model_that_keeps_its_head_is_said_to(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from isotrope.cli.train import _tell

    judged = {"verdict": "not judged", "advice": "name pairs"}
    for result, said in ((judged | {"head": ["mlp"]}, True), (judged, False)):
        _tell(tmp_path, result)
        assert ("(with its training head)" in " ".join(capsys.readouterr().out.split())) is said
