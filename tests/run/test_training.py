"""Whole runs on real files: what a run leaves behind, selection, the verdict, several processes, kills."""

from __future__ import annotations

import json
import os
import shutil
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
from isotrope.evaluation.sets.pairs import read_pairs
from isotrope.evaluation.sts import spearman
from isotrope.run.state import ObjectiveState
from isotrope.run.train import Run

HERE = ROOT / "tests"
SMALL = ["train.batch_size=16", "train.eval_steps=5", "train.save_steps=10"]
SMALL += ["train.learning_rate=1e-3", "encoder.pooling=mean"]


def small_run(model: Path, corpus: Path, output: Path, *overrides: str, **options: object) -> Run:
    return isotrope.train(
        corpus, backbone=str(model), output=output, overrides=[*SMALL, *overrides], **{"sentences": 320, **options}
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tiny_model, corpus_file, tmp_path_factory.mktemp("run") / "one", dev=str(pairs_file))


def test_a_run_leaves_its_record(finished: Run) -> None:
    kept = {path.name for path in finished.folder.iterdir()}
    assert kept >= {"model", "result.json", "metrics.jsonl", "preset.toml", "environment.json", "run.json"}
    result = json.loads((finished.folder / "result.json").read_text())
    assert result["verdict"] in {"better", "worse", "cannot be told"}
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


def test_the_verdict_is_on_pairs_that_did_not_select(finished: Run, pairs_file: Path, tiny_model: Path) -> None:
    """Half of the user's pairs select, the other half judges; its numbers are those of the two models."""
    comparison = finished.result["comparison"]
    (task,) = comparison["per_task"]
    pairs = read_pairs(pairs_file)
    scored = next(iter(finished.result["after"].values()))
    assert scored["nsamples"] == len(pairs) // 2
    assert comparison["after"] == pytest.approx(scored["spearman"]["test"], abs=1e-12)
    assert comparison["after"] - comparison["before"] == pytest.approx(comparison["difference"])
    assert finished.result["selection"]["sets"] == [task] == ["pairs"]


def test_training_learns(finished: Run) -> None:
    records = [json.loads(line) for line in (finished.folder / "metrics.jsonl").read_text().splitlines()]
    losses = [record["infonce"] for record in records if "infonce" in record]
    assert losses[-1] < 0.8 * losses[0]


def test_without_pairs_the_last_checkpoint_is_kept(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", dev="none", test="none")
    assert run.result["verdict"] == "cannot be told"
    assert run.result["selection"]["best_step"] is None
    assert "the last checkpoint is kept" in capsys.readouterr().out
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    signals = [record for record in records if "uniformity" in record]
    assert [record["step"] for record in signals] == [5, 10, 15, 20]
    assert all(np.isfinite([r["alignment"], r["uniformity"], r["mean_cosine"]]).all() for r in signals)


def test_early_stopping_ends_the_run(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> None:
    run = small_run(
        tiny_model, corpus_file, tmp_path / "run", "train.patience=1", "train.learning_rate=1e-12", dev=str(pairs_file)
    )
    assert run.result["selection"]["steps"] == 10, "the second evaluation is no better than the first"
    assert run.result["selection"]["best_step"] == 5


def test_how_often_a_run_is_evaluated_changes_nothing(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    often = small_run(tiny_model, corpus_file, tmp_path / "often", "train.eval_steps=3", dev="none", test="none")
    seldom = small_run(tiny_model, corpus_file, tmp_path / "seldom", "train.eval_steps=50", dev="none", test="none")
    first, second = (load_file(run.model / "model.safetensors") for run in (often, seldom))
    assert all(torch.equal(first[name], second[name]) for name in first)


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


def test_pairs_that_were_changed_since_do_not_resume_a_run(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = shutil.copytree(finished.folder, tmp_path / "run")
    (begun / "result.json").unlink()
    changed = tmp_path / pairs_file.name
    changed.write_text(pairs_file.read_text().replace("\t", " or so\t", 1))
    with pytest.raises(UserError, match=rf"dev = '{pairs_file.stem} \("):
        small_run(tiny_model, corpus_file, begun, dev=str(changed), resume=True)


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


def launch(*arguments: str, processes: int, timeout: int = 900) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps without dropout: equal weights, head included. With dropout: equal heads on both ranks."""
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    for name, processes, batch, dropout in (("two", 2, 8, 0.0), ("one", 1, 16, 0.0), ("wet", 2, 8, 0.1)):
        launch(
            str(HERE / "ranks.py"), str(table), str(tiny_model), str(tmp_path / name), str(batch), str(dropout),
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


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_ends_with_the_same_weights(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path, kills: int
) -> None:
    """SIGKILL at random moments of a run, from reading the corpus to writing the result; then --resume."""
    arguments = [HERE / "killer.py", tiny_model, corpus_file, pairs_file, tmp_path, kills]
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report["resumed"]) == kills
    assert set(report["resumed"]) == {report["undisturbed"]}


def test_dev_scores_are_spearman_of_the_saved_model(finished: Run, pairs_file: Path) -> None:
    from isotrope.run.pairs import judges

    _, kept = judges(None, {"pairs": read_pairs(pairs_file)}, None)
    model = SentenceTransformer(str(finished.model), device="cpu")
    first, second = (torch.nn.functional.normalize(model.encode(side, convert_to_tensor=True), dim=-1)
                     for side in (kept["pairs"].first, kept["pairs"].second))  # fmt: skip
    found = spearman((first * second).sum(-1).numpy(), kept["pairs"].gold)
    assert found == pytest.approx(finished.result["selection"]["best_score"], abs=1e-3)


def test_accumulation_takes_several_batches_a_step(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", "train.accumulation=4", dev="none", test="none")
    assert run.result["selection"]["steps"] == 5, "320 sentences, 16 a batch, 4 batches a step"


def test_encoder_and_head_are_clipped_by_one_norm(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the optimizer steps, all gradients together have the norm that was set, and the head has its share."""
    seen: list[tuple[float, float]] = []

    def look(self: ObjectiveState, *_: object, **__: object) -> None:
        named = [(name, p.grad.norm()) for name, p in self.objective.named_parameters() if p.grad is not None]
        whole = torch.stack([norm for _, norm in named]).norm().item()
        seen.append((whole, torch.stack([norm for name, norm in named if "linear" in name]).norm().item()))

    monkeypatch.setattr(ObjectiveState, "on_pre_optimizer_step", look)
    small_run(
        tiny_model, corpus_file, tmp_path / "run", "train.max_grad_norm=0.01", dev="none", test="none", sentences=64
    )
    assert len(seen) == 4
    for whole, head in seen:
        assert whole == pytest.approx(0.01, rel=1e-3)
        assert 0 < head < whole


def test_another_dev_set_is_another_run(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", dev=str(pairs_file), sentences=64)
    (run.folder / "result.json").unlink()
    with pytest.raises(UserError, match="dev = 'none'"):
        small_run(tiny_model, corpus_file, run.folder, dev="none", test="none", sentences=64, resume=True)
