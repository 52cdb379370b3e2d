"""Several processes: their result, their launcher, their errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import ROOT, sentences
from isotrope.errors import UserError
from isotrope.training.launch import launch
from small_runs import lose, torchrun


def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps without dropout: equal weights, head included. With dropout: equal heads on both ranks.

    At 1e-3, one weight differs by 2.3e-5 on some processors: probably AdamW's division of a gradient near 0.
    """
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    for name, processes, batch, dropout in (("two", 2, 8, 0.0), ("one", 1, 16, 0.0), ("wet", 2, 8, 0.1)):
        torchrun(
            *map(str, (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, dropout)),
            "train.learning_rate=3e-4",
            processes=processes,
        )  # fmt: skip
    one, two = load_file(tmp_path / "one-0.safetensors"), load_file(tmp_path / "two-0.safetensors")
    began = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
    assert (one["model.0.model.embeddings.word_embeddings.weight"] - began).abs().max() > 1e-3, "it has moved"
    assert {name for name in one if not name.startswith("model.")} >= {"components.0.linear.weight"}
    for name, value in one.items():
        assert torch.allclose(value, two[name], atol=1e-5), name
    for run in ("two", "wet"):
        ranks = [load_file(tmp_path / f"{run}-{rank}.safetensors") for rank in (0, 1)]
        for name in ranks[0]:
            assert torch.equal(ranks[0][name], ranks[1][name]), (run, name)


def train(*more: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isotrope.cli", "train", *map(str, more)]
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=own, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "reading",
    [
        ("--positive", "positive"),
        ("--preset", "crops", "--set", "pairs.rounds=3"),
        ("--positive", "positive", "--set", "encoder.lora.rank=4"),
    ],
)
def test_processes_of_our_own_launcher_equal_one_of_twice_the_batch(
    reading: tuple[str, ...], tiny_model: Path, tmp_path: Path
) -> None:
    """As under torchrun; the first process alone speaks. Pairs of documents come in rounds, of 324 rows or fewer."""
    text, table = sentences(640), tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    settings = ("encoder.dropout=0", "encoder.pooling=mean", "train.learning_rate=1e-3")
    common = [table, "--backbone", tiny_model, "--text", "text", *reading]
    common += [word for setting in settings for word in ("--set", setting)]
    weights = {}
    for name, processes, batch in (("one", 1, 16), ("two", 2, 8)):
        more = ["--processes", processes, "--set", f"train.batch_size={batch}", "--output", tmp_path / name]
        done = train(*common, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("verdict: ") == 1
        assert json.loads((tmp_path / name / "run.json").read_text())["processes"] == processes
        weights[name] = load_file(tmp_path / name / "model" / "model.safetensors")
    again = train(*common, *more, "--resume")
    assert (again.returncode, again.stdout.count("verdict: "), again.stderr) == (0, 1, "")
    for name, value in weights["one"].items():
        assert torch.allclose(value, weights["two"][name], atol=1e-5), name


@pytest.mark.parametrize("processes", [1, 2])
def test_a_users_mistake_is_one_line_of_the_first_process(processes: int, tiny_model: Path, tmp_path: Path) -> None:
    done = train("no.txt", "--output", tmp_path / "run", "--backbone", tiny_model, "--processes", processes)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "isotrope: no.txt does not exist: check the path of the corpus\n"


@pytest.mark.slow
def test_under_torchrun_the_first_process_alone_speaks(tiny_model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m"]
    command += ["isotrope.cli", "train", "no.txt", "--output", str(tmp_path / "run"), "--backbone", str(tiny_model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.count("isotrope: ") == 1
    assert "no.txt does not exist" in done.stderr


@pytest.mark.slow
def test_half_a_launcher_is_one_line(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    done = train(corpus_file, "--output", tmp_path / "run", "--backbone", tiny_model, RANK="1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--processes N" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_and_they_go_on(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    words = ["--set", "train.epochs=90", "--set", "train.batch_size=16", "--set", "train.eval_steps=10"]
    command = [sys.executable, "-m", "isotrope.cli", "train", corpus_file, "--backbone", tiny_model]
    command += ["--sentences", "64", "--output", tmp_path / "run", "--processes", "2", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen(list(map(str, command)), env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True, **pipes)
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith("step 10:"):
            running.send_signal(signal.SIGINT)
            break
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert err.count("isotrope: ") == 1
    assert "go on with the same command and --resume" in err
    done = train(*command[4:], "--resume")
    assert done.returncode == 0, done.stderr
    assert "verdict: " in done.stdout


def test_more_processes_than_the_machine_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.training.launch.subprocess.Popen", None)  # nothing is started
    with pytest.raises(UserError, match=r"--processes 10000 on a machine with .*: choose at most"):
        launch([], 10_000)


@pytest.mark.slow
def test_a_lost_process_is_one_line_and_one_process_goes_on_for_two(tiny_model: Path, tmp_path: Path) -> None:
    """Without dropout, as many sentences a step give what they would have given."""
    text, table = sentences(1280), tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:640], text[640:], strict=True))
    table.write_text("\n".join(lines))
    settings = ("encoder.dropout=0", "encoder.pooling=mean", "train.learning_rate=1e-4", "train.save_steps=5")
    common = [table, "--backbone", tiny_model, *[word for setting in settings for word in ("--set", setting)]]
    common += ["--positive", "positive", "--text", "text"]
    two, one = ["--processes", "2", "--set", "train.batch_size=8"], ["--set", "train.batch_size=16"]
    command = ["-m", "isotrope.cli", "train", *common, "--output", tmp_path / "run", *two]
    code, errors, _ = lose(1, tmp_path / "run", *map(str, command))
    assert code == 137
    assert errors.startswith("isotrope: process 2 of 2 was ended by SIGKILL")
    assert errors.count("\n") == 1
    refused = train(*common, "--output", tmp_path / "run", "--resume", "--set", "train.batch_size=8")
    assert refused.returncode == 2
    assert "processes = 1 (then 2)" in refused.stderr
    for output, more in (("run", ["--resume"]), ("whole", [])):
        done = train(*common, *one, "--output", tmp_path / output, *more)
        assert done.returncode == 0, done.stderr
    weights = [load_file(tmp_path / output / "model" / "model.safetensors") for output in ("run", "whole")]
    assert all(torch.allclose(value, weights[1][name], atol=1e-5) for name, value in weights[0].items())
