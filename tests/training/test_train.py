"""Whole runs on real files: what a run leaves behind, seeds, kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

import isotrope
from conftest import ROOT, sentences
from isotrope.errors import UserError
from isotrope.training.train import Run
from small_runs import small_run


def test_a_run_leaves_its_record(finished: Run) -> None:
    kept = {path.name for path in finished.folder.iterdir()}
    assert kept >= {"model", "result.json", "metrics.jsonl", "preset.toml", "environment.json", "run.json"}
    result = json.loads((finished.folder / "result.json").read_text())
    assert result["verdict"] in {"better", "worse", "not significant"}
    assert result["advice"]
    records = [json.loads(line) for line in (finished.folder / "metrics.jsonl").read_text().splitlines()]
    evaluated = [record for record in records if "score" in record]
    assert [record["step"] for record in evaluated] == [5, 10, 15, 20]
    assert any("infonce" in record for record in records)
    assert result["selection"]["best_score"] == max(record["score"] for record in evaluated)


def test_the_model_is_the_best_one_and_loads_in_plain_sentence_transformers(finished: Run, pairs_file: Path) -> None:
    plain = SentenceTransformer(str(finished.model), device="cpu")
    assert np.array_equal(plain.encode(sentences(5)), isotrope.load(finished.model, device="cpu").encode(sentences(5)))
    assert not any("linear" in name for name, _ in plain.named_parameters()), "the head is for training only"
    assert plain.max_seq_length == 64, "the training length is not the model's"
    best = finished.result["selection"]["best_step"]
    kept = load_file(finished.folder / "checkpoints" / f"best-{best}.safetensors")
    for name, value in plain.state_dict().items():
        assert torch.equal(value, kept[name]), name


def test_training_learns(finished: Run) -> None:
    records = [json.loads(line) for line in (finished.folder / "metrics.jsonl").read_text().splitlines()]
    losses = [record["infonce"] for record in records if "infonce" in record]
    assert losses[-1] < 0.8 * losses[0]


def test_seeds_differ_and_a_seed_repeats(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> torch.Tensor:
        run = small_run(tiny_model, corpus_file, tmp_path / name, seed=seed, sentences=64, dev="none", test="none")
        return load_file(run.model / "model.safetensors")["embeddings.word_embeddings.weight"]

    assert torch.equal(weights("a", 1), weights("b", 1))
    assert not torch.equal(weights("c", 2), weights("d", 3))


def test_resume_of_a_finished_run_does_nothing_and_another_run_is_refused(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    before = (finished.model / "model.safetensors").stat().st_mtime_ns
    again = small_run(tiny_model, corpus_file, finished.folder, dev=str(pairs_file), resume=True)
    assert again.result == json.loads(json.dumps(finished.result))
    assert (finished.model / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="--resume"):
        small_run(tiny_model, corpus_file, finished.folder, dev=str(pairs_file))
    with pytest.raises(UserError, match="seed = 7"):
        small_run(tiny_model, corpus_file, finished.folder, dev=str(pairs_file), seed=7, resume=True)


def test_text_and_positive_columns_train(tiny_model: Path, tmp_path: Path) -> None:
    text = sentences(96)
    table = tmp_path / "pairs.jsonl"
    rows = zip(text[:48], text[48:], text[::-1][:48], strict=True)
    table.write_text("".join(json.dumps({"a": a, "b": b, "c": c}) + "\n" for a, b, c in rows))
    run = isotrope.train(
        table, backbone=str(tiny_model), output=tmp_path / "run", overrides=["train.batch_size=8"], dev="none",
        test="none", text="a", positive="b", negatives=["c"],
    )  # fmt: skip
    assert run.result["selection"]["steps"] == 6


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_ends_with_the_same_weights(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path, kills: int
) -> None:
    """SIGKILL at random moments of a run, from reading the corpus to writing the result; then --resume."""
    arguments = [ROOT / "tests" / "killer.py", tiny_model, corpus_file, pairs_file, tmp_path, kills]
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report["resumed"]) == kills
    assert set(report["resumed"]) == {report["undisturbed"]}
