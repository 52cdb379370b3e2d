"""Training goes on from the newest whole checkpoint, and ends as if nothing had happened; the files
of a run.
"""

import getpass
import json
import os
import platform
import re
import signal
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainerState

from helpers.refusals import refused
from helpers.small_runs import SHORT, Small, logged, same_weights, unfinished
from isotrope.errors import Stopped
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.training.folder import task_cosines, write_cosines
from isotrope.training.page import dev_curves, loss_curves
from isotrope.training.processes import PACKAGES, environment, source
from isotrope.training.train import Run
from isotrope.training.trainer import ObjectiveState, Trainer

LAST = "checkpoint-20"


def ctrl_c_in_step(number: int) -> Callable[..., None]:
    def callback(
        self: ObjectiveState, args: object, state: TrainerState, *_: object, **__: object
    ) -> None:
        if state.global_step == number - 1:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_after_ctrl_c_the_same_call_goes_on_and_ends_as_if_nothing_had_been(
    small: Small, finished: Run, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(7))
        with pytest.raises(Stopped, match="stopped after step 7 of 20"):
            small(begun, dev=str(pairs_file))
    assert signal.getsignal(signal.SIGINT) is before
    kept = {path.name for path in (begun / "checkpoints").glob("checkpoint-*")}
    assert kept == {"checkpoint-5", "checkpoint-7"}, "the best one, and the last"
    assert not (begun / "model").exists()
    small(begun, dev=str(pairs_file))
    assert same_weights(begun, finished.folder)
    first, second = logged(finished.folder), logged(begun)
    assert [record["step"] for record in first] == [record["step"] for record in second], (
        "each step is logged once"
    )
    assert [record for record in first if "score" in record] == [
        record for record in second if "score" in record
    ]


def test_ctrl_c_in_the_last_step_stops_too(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the training, such as the next one of `improve`, must not begin."""
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c_in_step(4))
        with pytest.raises(Stopped, match="stopped after step 4 of 4"):
            small("run", **SHORT)
    assert small("run", **SHORT).record["selection"]["steps"] == 4


def test_what_is_trained_to_its_end_is_not_trained_again(
    small: Small, finished: Run, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the last step and the result, or its model was lost or damaged since: the best
    weights come back.

    The log comes back from the checkpoint, and nothing that is not ours is deleted.
    """
    begun = unfinished(finished, tmp_path / "run")
    whole = (begun / "metrics.jsonl").read_text()
    (begun / "metrics.jsonl").write_bytes(b'{"step": 5, "score": NaN\n\xff\xfe')
    for name in ("checkpoint-best", "checkpoint-7-copy", "best-of-all.safetensors"):
        (begun / "checkpoints" / name).mkdir()
        (begun / "checkpoints" / name / "thesis.tex").write_text("x")
    monkeypatch.setattr(
        Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again")
    )
    for damage in (lambda: None, (begun / "model" / "model.safetensors").unlink):
        damage()
        again = small(begun, dev=str(pairs_file))
        for key in ("steps", "best_step", "best_score"):
            assert again.record["selection"][key] == finished.record["selection"][key]
        assert same_weights(begun, finished.folder)
        assert (begun / "metrics.jsonl").read_text() == whole
    assert len(list((begun / "checkpoints").glob("*/thesis.tex"))) == 3


def test_a_run_that_was_stopped_early_is_not_trained_on(
    small: Small, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after patience ended it, with steps left: it has still ended."""
    settings = ["train.patience=1", "train.learning_rate=1e-12"]
    whole = small("whole", *settings, dev=str(pairs_file))
    assert (whole.record["selection"]["steps"], whole.record["selection"]["best_step"]) == (10, 5)
    begun = unfinished(whole, tmp_path / "run")
    monkeypatch.setattr(
        Trainer, "training_step", lambda *_, **__: pytest.fail("a step was trained again")
    )
    again = small(begun, *settings, dev=str(pairs_file))
    assert again.record["selection"]["steps"] == 10


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "damage"), [("model.safetensors", cut), ("rng_state.pth", Path.unlink)]
)
def test_a_damaged_checkpoint_is_left_for_the_older_one(
    small: Small,
    name: str,
    damage: Callable[[Path], None],
    finished: Run,
    pairs_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = unfinished(finished, tmp_path / "run")
    damage(begun / "checkpoints" / LAST / name)
    again = small(begun, dev=str(pairs_file))
    out = capsys.readouterr().out
    assert f"{LAST} is damaged; it is not used" in " ".join(out.split()), out
    assert out.count("step 5:") == 0, "the older checkpoint is at step 10"
    assert out.count("step 15:") == 1
    assert same_weights(finished.folder, begun)
    assert again.record["selection"]["best_score"] == finished.record["selection"]["best_score"]


def test_a_second_ctrl_c_ends_it_at_once(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*_: object, **__: object) -> None:
        for _time in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(ObjectiveState, "on_step_begin", twice)
    with pytest.raises(KeyboardInterrupt):
        small("run", **SHORT)
    assert signal.getsignal(signal.SIGINT) is before


def test_cosines_come_back_to_the_last_bit_and_damage_is_told(tmp_path: Path) -> None:
    path, drawn = tmp_path / "after.npz", np.random.default_rng(0)
    sets = {
        task: {
            part: GradedPairs(part, ["a"] * n, ["b"] * n, drawn.uniform(0, 5, n))
            for part, n in parts.items()
        }
        for task, parts in {
            "STS12": {"MSRpar": 2, "OnWN": 3},
            "<b>own pairs, ü": {"test": 2},
        }.items()
    }
    cosines = {
        task: {part: drawn.uniform(-1, 1, len(pairs)) for part, pairs in parts.items()}
        for task, parts in sets.items()
    }
    write_cosines(path, sets, cosines)
    found = task_cosines(path)
    assert found.keys() == sets.keys()
    for task, parts in sets.items():
        expected = [[pairs.gold for pairs in parts.values()], [*cosines[task].values()]]
        assert all(
            np.array_equal(one, np.concatenate(other))
            for one, other in zip(found[task], expected, strict=True)
        )
    path.write_bytes(path.read_bytes()[:-30])
    with refused("damaged-cosines"):
        task_cosines(path)


def test_the_environment_has_versions_and_nothing_of_the_machines_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "my-own-machine")
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    found = environment()
    assert found["packages"] == {package: version(package) for package in PACKAGES}
    assert found["threads"] == torch.get_num_threads()
    assert re.fullmatch("[0-9a-f]{16}", found["source"])
    assert not [
        secret
        for secret in ("my-own-machine", "somebody", f"{Path.home()}/")
        if secret in json.dumps(found)
    ]


def test_equal_code_has_one_checksum_wherever_it_lies_and_other_code_another(
    tmp_path: Path,
) -> None:
    files = {"a.py": b"x = 1\n", "presets/b.toml": b"[a]\n"}
    for folder in ("one", "two"):
        for name, content in files.items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(
                content if folder == "one" else content.replace(b"\n", b"\r\n")
            )
    (tmp_path / "two" / "cached.pyc").write_bytes(b"")
    assert source.__wrapped__(tmp_path / "one") == source.__wrapped__(tmp_path / "two")
    (tmp_path / "two" / "a.py").write_bytes(b"x = 2\n")
    assert source.__wrapped__(tmp_path / "one") != source.__wrapped__(tmp_path / "two")


def test_a_single_part_is_drawn_under_its_name_and_several_beside_their_sum_or_mean() -> None:
    logged, space = (
        {"grad_norm": 9.0, "learning_rate": 1e-5},
        {"alignment": 0.3, "uniformity": -2.0},
    )
    one = [
        {"step": 1, "loss": 0.5, "infonce": 0.5, **logged},
        {"step": 2, "score": 0.25, "stsb": 0.25, **space},
    ]
    assert loss_curves(one) == {"infonce": ([1], [0.5])}
    assert dev_curves(one) == {"stsb": ([2], [25.0])}
    two = {"step": 3, "loss": 0.9, "infonce": 0.5, "rank": 0.4, **logged}
    assert loss_curves([two]) == {
        "loss": ([3], [0.9]),
        "infonce": ([3], [0.5]),
        "rank": ([3], [0.4]),
    }
    two = {"step": 5, "score": 0.5, "stsb": 0.75, "sickr": 0.25, **space}
    assert dev_curves([two]) == {
        "score": ([5], [50.0]),
        "stsb": ([5], [75.0]),
        "sickr": ([5], [25.0]),
    }
