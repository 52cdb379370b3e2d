"""A run goes on from the newest whole checkpoint, and ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from isotrope.errors import UserError
from isotrope.training.train import Run
from small_runs import small_run, unfinished

LAST, BEFORE = "checkpoint-20", "checkpoint-10"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


FILES = [
    "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "training_args.bin",
    "objective.safetensors", "metrics.jsonl", "best.json", "complete.json", "1_Pooling/config.json",
]  # fmt: skip


def same_weights(first: Path, second: Path) -> bool:
    one, two = load_file(first / "model" / "model.safetensors"), load_file(second / "model" / "model.safetensors")
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, cut) for name in FILES), ("optimizer.pt", empty), ("rng_state.pth", Path.unlink)]
)
def test_a_damaged_checkpoint_is_left_for_the_older_one(
    name: str, damage: Callable[[Path], None], finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    begun = unfinished(finished, tmp_path / "run")
    damage(begun / "checkpoints" / LAST / name)
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    out = capsys.readouterr().out
    assert name == "complete.json" or f"{LAST} is damaged; it is not used" in " ".join(out.split()), out
    assert out.count("step 5:") == 0, "the older checkpoint is at step 10"
    assert out.count("step 15:") == 1
    assert same_weights(finished.folder, begun)
    assert again.result["selection"]["best_score"] == finished.result["selection"]["best_score"]


def test_damaged_best_weights_are_trained_again(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    begun = unfinished(finished, tmp_path / "run")
    best = begun / "checkpoints" / f"best-{finished.result['selection']['best_step']}.safetensors"
    cut(best)
    small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert f"{best.name} is missing or damaged" in " ".join(capsys.readouterr().out.split())
    assert same_weights(finished.folder, begun)


def test_the_log_comes_back_from_the_checkpoint(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = unfinished(finished, tmp_path / "run")
    log = begun / "metrics.jsonl"
    whole = log.read_text()
    log.write_bytes(b'{"step": 5, "score": NaN\n\xff\xfe')
    small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert log.read_text() == whole


def test_a_finished_run_without_its_model_makes_it_again(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = unfinished(finished, tmp_path / "run")
    (begun / "result.json").write_bytes((finished.folder / "result.json").read_bytes())
    again = small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert again.model.is_dir()
    assert same_weights(finished.folder, begun)
    (begun / "model" / "model.safetensors").unlink()
    small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert same_weights(finished.folder, begun)


def test_nothing_foreign_is_deleted(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """A folder that has a checkpoint's name is refused at once; other names are left alone."""
    begun = unfinished(finished, tmp_path / "run")
    for name in ("checkpoint-best", "checkpoint-7-copy", "best-of-all.safetensors"):
        (begun / "checkpoints" / name).mkdir()
        (begun / "checkpoints" / name / "thesis.tex").write_text("x")
    small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert len(list((begun / "checkpoints").glob("*/thesis.tex"))) == 3
    for name in ("result.json",):
        (begun / name).unlink()
    foreign = begun / "checkpoints" / "checkpoint-7"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="checkpoint-7 is not empty and holds no checkpoint"):
        small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)
    assert (foreign / "thesis.tex").is_file()
    assert (begun / "checkpoints" / LAST).is_dir()
