"""Training itself: stopped and gone on with, what it tells, and what it begins from."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerState

from isotrope.errors import Stopped
from isotrope.training.fit import TrainingOutcome
from isotrope.training.state import ObjectiveState
from isotrope.training.train import Run
from isotrope.training.trainer import Trainer
from small_runs import small_run, unfinished


def ctrl_c_in_step(number: int) -> Callable[..., None]:
    def callback(self: ObjectiveState, args: object, state: TrainerState, *_: object, **__: object) -> None:
        if state.global_step == number - 1:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_after_ctrl_c_the_checkpoint_stands_and_the_run_ends_as_if_nothing_had_been(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    begun = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(7))
        with pytest.raises(Stopped, match="stopped after step 7 of 20"):
            small_run(tiny_model, corpus_file, begun, dev=str(pairs_file))
    assert signal.getsignal(signal.SIGINT) is before
    assert [path.name for path in (begun / "checkpoints").glob("checkpoint-*")] == ["checkpoint-7"]
    assert not (begun / "model").exists()
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    one, other = (load_file(run.model / "model.safetensors") for run in (finished, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    first, second = ([json.loads(line) for line in (run.folder / "metrics.jsonl").open()] for run in (finished, again))
    assert [record["step"] for record in first] == [record["step"] for record in second], "each step is logged once"
    assert [record for record in first if "score" in record] == [record for record in second if "score" in record]


def test_ctrl_c_in_the_last_step_stops_too(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after the training, such as the next one of `improve`, must not begin."""
    short = {"dev": "none", "test": "none", "sentences": 64}
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(4))
        with pytest.raises(Stopped, match="stopped after step 4 of 4"):
            small_run(tiny_model, corpus_file, tmp_path / "run", **short)
    assert small_run(tiny_model, corpus_file, tmp_path / "run", resume=True, **short).result["selection"]["steps"] == 4


def test_where_ctrl_c_is_ignored_it_stops_nothing(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under nohup, or in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(2))
        small_run(tiny_model, corpus_file, tmp_path / "run", dev="none", test="none", sentences=64)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_trained_to_its_end_is_not_trained_again(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Killed between the last step and the result: the best weights come back."""
    begun = unfinished(finished, tmp_path / "run")
    monkeypatch.setattr(Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again"))
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    for key in ("steps", "best_step", "best_score"):
        assert again.result["selection"][key] == finished.result["selection"][key]
    one, other = (load_file(run.model / "model.safetensors") for run in (finished, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_that_was_stopped_early_is_not_trained_on(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after patience ended it, with steps left: it has still ended."""
    settings = ["train.patience=1", "train.learning_rate=1e-12"]
    whole = small_run(tiny_model, corpus_file, tmp_path / "whole", *settings, dev=str(pairs_file))
    begun = unfinished(whole, tmp_path / "run")
    monkeypatch.setattr(Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again"))
    again = small_run(tiny_model, corpus_file, begun, *settings, dev=str(pairs_file), resume=True)
    assert again.result["selection"]["steps"] == whole.result["selection"]["steps"] == 10


def test_the_outcome_is_what_the_log_says(finished: Run) -> None:
    records = [json.loads(line) for line in (finished.folder / "metrics.jsonl").open()]
    scores = {record["step"]: record["score"] for record in records if "score" in record}
    told = finished.result["selection"]
    outcome = TrainingOutcome(told["steps"], told["best_step"], told["best_score"], 0.0)
    assert outcome.steps == max(scores) == 20
    assert outcome.best_score == scores[outcome.best_step or 0] == max(scores.values())
