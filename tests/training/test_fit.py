"""Training goes on from the newest whole checkpoint, and ends as if nothing had happened; what a person sees of it."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerControl, TrainerState, TrainingArguments

from isotrope.errors import Stopped
from isotrope.training.progress import CtrlC
from isotrope.training.train import Run
from isotrope.training.trainer import ObjectiveState, Trainer
from small_runs import small_run, unfinished

LAST = "checkpoint-20"
SHORT = {"dev": "none", "labels": "none", "sentences": 64}


def same_weights(first: Path, second: Path) -> bool:
    one, two = load_file(first / "model" / "model.safetensors"), load_file(second / "model" / "model.safetensors")
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def ctrl_c_in_step(number: int) -> Callable[..., None]:
    def callback(self: ObjectiveState, args: object, state: TrainerState, *_: object, **__: object) -> None:
        if state.global_step == number - 1:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_after_ctrl_c_the_same_call_goes_on_and_ends_as_if_nothing_had_been(
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
    kept = {path.name for path in (begun / "checkpoints").glob("checkpoint-*")}
    assert kept == {"checkpoint-5", "checkpoint-7"}, "the best one, and the last"
    assert not (begun / "model").exists()
    small_run(tiny_model, corpus_file, begun, dev=str(pairs_file))
    assert same_weights(begun, finished.folder)
    first, second = ([json.loads(line) for line in (f / "metrics.jsonl").open()] for f in (finished.folder, begun))
    assert [record["step"] for record in first] == [record["step"] for record in second], "each step is logged once"
    assert [record for record in first if "score" in record] == [record for record in second if "score" in record]


def test_ctrl_c_in_the_last_step_stops_too(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after the training, such as the next one of `improve`, must not begin."""
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(4))
        with pytest.raises(Stopped, match="stopped after step 4 of 4"):
            small_run(tiny_model, corpus_file, tmp_path / "run", **SHORT)
    assert small_run(tiny_model, corpus_file, tmp_path / "run", **SHORT).record["selection"]["steps"] == 4


def test_what_is_trained_to_its_end_is_not_trained_again(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Killed between the last step and the result, or its model was lost or damaged since: the best weights come back.

    The log comes back from the checkpoint, and nothing that is not ours is deleted.
    """
    begun = unfinished(finished, tmp_path / "run")
    whole = (begun / "metrics.jsonl").read_text()
    (begun / "metrics.jsonl").write_bytes(b'{"step": 5, "score": NaN\n\xff\xfe')
    for name in ("checkpoint-best", "checkpoint-7-copy", "best-of-all.safetensors"):
        (begun / "checkpoints" / name).mkdir()
        (begun / "checkpoints" / name / "thesis.tex").write_text("x")
    monkeypatch.setattr(Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again"))
    for damage in (lambda: None, (begun / "model" / "model.safetensors").unlink):
        damage()
        again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file))
        for key in ("steps", "best_step", "best_score"):
            assert again.record["selection"][key] == finished.record["selection"][key]
        assert same_weights(begun, finished.folder)
        assert (begun / "metrics.jsonl").read_text() == whole
    assert len(list((begun / "checkpoints").glob("*/thesis.tex"))) == 3


def test_a_run_that_was_stopped_early_is_not_trained_on(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after patience ended it, with steps left: it has still ended."""
    settings = ["train.patience=1", "train.learning_rate=1e-12"]
    whole = small_run(tiny_model, corpus_file, tmp_path / "whole", *settings, dev=str(pairs_file))
    assert (whole.record["selection"]["steps"], whole.record["selection"]["best_step"]) == (10, 5)
    begun = unfinished(whole, tmp_path / "run")
    monkeypatch.setattr(Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again"))
    again = small_run(tiny_model, corpus_file, begun, *settings, dev=str(pairs_file))
    assert again.record["selection"]["steps"] == 10


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "damage"),
    [("model.safetensors", cut), ("rng_state.pth", Path.unlink)],
)
def test_a_damaged_checkpoint_is_left_for_the_older_one(
    name: str, damage: Callable[[Path], None], finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    begun = unfinished(finished, tmp_path / "run")
    damage(begun / "checkpoints" / LAST / name)
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file))
    out = capsys.readouterr().out
    assert f"{LAST} is damaged; it is not used" in " ".join(out.split()), out
    assert out.count("step 5:") == 0, "the older checkpoint is at step 10"
    assert out.count("step 15:") == 1
    assert same_weights(finished.folder, begun)
    assert again.record["selection"]["best_score"] == finished.record["selection"]["best_score"]


@pytest.fixture
def arguments(tmp_path: Path) -> TrainingArguments:
    return TrainingArguments(output_dir=str(tmp_path), report_to="none")


def test_the_first_ctrl_c_asks_for_the_end_of_the_step_and_the_second_is_at_once(arguments: TrainingArguments) -> None:
    before, listening, control = signal.getsignal(signal.SIGINT), CtrlC(), TrainerControl()
    listening.on_train_begin(arguments, TrainerState(), control)
    try:
        listening.on_step_end(arguments, TrainerState(), control)
        assert not control.should_training_stop
        os.kill(os.getpid(), signal.SIGINT)
        assert listening.asked
        listening.on_step_end(arguments, TrainerState(), control)
        assert control.should_training_stop
        assert control.should_save
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        listening.close()
    assert signal.getsignal(signal.SIGINT) is before
    listening.close()
    assert signal.getsignal(signal.SIGINT) is before
