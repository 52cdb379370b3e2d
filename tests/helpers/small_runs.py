"""Trainings of some 20 steps for tests, and the trainer of a user's own script."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import nn
from transformers import TrainerCallback

import isotrope
from isotrope.training.train import Run

SMALL = ["train.batch_size=16", "train.eval_steps=5", "train.save_steps=10"]
SMALL += ["train.learning_rate=1e-3", "encoder.pooling=mean"]
Small = Callable[..., Run]  # of the fixture `small`: the folder, overrides, options
SHORT = {"dev": "none", "labels": "none", "max_texts": 64}  # four steps, and nothing judges


def small_run(model: Path, corpus: Path, output: Path, *overrides: str, **options: object) -> Run:
    """320 sentences, 16 a batch: 20 steps, 2 checkpoints."""
    return isotrope.train(
        corpus,
        model=str(model),
        output=output,
        overrides=[*SMALL, *overrides],
        **{"preset": "simcse", "max_texts": 320, **options},
    )


def launched(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """This process is the first of ``count`` that torchrun has started, as far as isotrope knows."""
    variables = {"WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    variables |= {"MASTER_ADDR": "here", "MASTER_PORT": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def unfinished(run: Run, folder: Path) -> Path:
    """A copy of a finished run, as it is when all steps are done and nothing else."""
    copy = shutil.copytree(run.folder, folder)
    for name in ("result.json", "after.npz"):
        (copy / name).unlink(missing_ok=True)
    shutil.rmtree(copy / "model")
    return copy


def logged(folder: Path) -> list[dict[str, Any]]:
    """What a run has logged."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def same_weights(one: Path, other: Path, name: str = "model/model.safetensors") -> bool:
    """Whether the files of this name in two folders hold the same numbers, bit for bit."""
    first, second = (load_file(folder / name) for folder in (one, other))
    return first.keys() == second.keys() and all(
        torch.equal(first[key], second[key]) for key in first
    )


def script(
    loss: nn.Module,
    folder: Path,
    data: Any,
    callbacks: Sequence[TrainerCallback] = (),
    **options: Any,
) -> SentenceTransformerTrainer:
    """sentence-transformers' trainer of ``loss.model``, on columns or a data set, eight rows a
    batch.
    """
    settings = {
        "per_device_train_batch_size": 8,
        "logging_steps": 1,
        "save_strategy": "no",
        **options,
    }
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), report_to="none", disable_tqdm=True, use_cpu=True, **settings
    )
    dataset = data if isinstance(data, Dataset | DatasetDict) else Dataset.from_dict(data)
    return SentenceTransformerTrainer(
        model=loss.model, args=arguments, train_dataset=dataset, loss=loss, callbacks=[*callbacks]
    )


TORCHRUN = ["torch.distributed.run", "--standalone"]


def torchrun(*arguments: str, processes: int) -> None:
    """Run a script in processes of torchrun's."""
    command = [sys.executable, "-m", *TORCHRUN, f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=900, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def lose(rank: int, run: Path, *command: str) -> tuple[int, str, float]:
    """Start processes, and kill one when the run has a checkpoint -> exit code, errors, seconds
    until all had ended.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    launcher = subprocess.Popen([sys.executable, *command], env=environment, text=True, **pipes)  # type: ignore[call-overload]
    while not list(run.glob("checkpoints/checkpoint-*/contents.json")):
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.05)
    ours = psutil.Process(launcher.pid).children(recursive=True)
    (one,) = [each for each in ours if each.environ().get("RANK") == str(rank)]
    began = time.monotonic()
    one.kill()
    _, errors = launcher.communicate(timeout=300)
    return launcher.returncode, errors, time.monotonic() - began
