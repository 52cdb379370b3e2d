"""``train.fsdp``: the weights are spread over the processes, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from conftest import ROOT, sentences
from isotrope import load
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, read_preset
from isotrope.training.sharded import check_fsdp, check_parts
from small_runs import lose, torchrun

TWO = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "here", "MASTER_PORT": "1"}
RATE = "train.learning_rate=3e-4"  # with 10⁻³, Adam makes the rounding of one weight 2.3·10⁻⁵, also under DDP
PEERS = ["views.passes=3", "peers.trained.on=[1]", "peers.moving_average.on=[2]", "scores.positives.views=[1]"]
PEERS += ["scores.key_queue.keys=2", "scores.key_queue.size=40", "train.mini_batch_size=5"]


def rankcse(teacher: Path) -> list[str]:
    listnet = ["kind='listnet'", "teacher='guide'", "temperature=0.025", "teacher_temperature=0.0125"]
    terms = ["consistency.weight=1", *(f"rank.{option}" for option in listnet)]
    return [*(f"terms.{term}" for term in terms), f"teachers.guide.models=['{teacher}']"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("encoder.lora.rank=4", "encoder.lora"), ("train.compile=true", "train.compile"),
        ("train.precision='fp16'", "train.precision"),
    ],
)  # fmt: skip
def test_what_fsdp_does_not_go_with_is_refused(setting: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    check_fsdp(read_preset("simcse", ["train.fsdp=true"]))
    with pytest.raises(UserError, match=f"train.fsdp = true does not go with {named}.*: leave out {named}"):
        check_fsdp(read_preset("simcse", ["train.fsdp=true", setting]))


def test_one_process_has_nothing_to_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(UserError, match="over several processes, and there is one: start it with torchrun"):
        check_fsdp(read_preset("simcse", ["train.fsdp=true"]))


@pytest.mark.parametrize("part", [["terms.paser.weight=1"], ["tokens.cutoff.unit='feature'", "tokens.cutoff.on=[1]"]])
def test_a_part_that_reads_the_students_weights_is_refused(part: list[str], tiny_model: Path) -> None:
    check_parts(build_objective(read_preset("simcse", PEERS), load(tiny_model, "mean", device="cpu")))
    objective = build_objective(read_preset("simcse", part), load(tiny_model, "mean", device="cpu"))
    with pytest.raises(UserError, match=r"train.fsdp = true: .* reads the weights of the student itself: set"):
        check_parts(objective)


def test_a_student_without_a_transformer_is_refused(tiny_model: Path) -> None:
    words = StaticEmbedding(Tokenizer.from_file(str(tiny_model / "tokenizer.json")), embedding_dim=8)
    objective = build_objective(read_preset("simcse"), SentenceTransformer(modules=[words], device="cpu"))
    with pytest.raises(UserError, match="spreads a transformer, and the model has none"):
        check_parts(objective)


@pytest.mark.slow
def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps of SimCSE, RankCSE, and of a trained and a slow second encoder with a queue, heads included."""
    text, table = sentences(640), tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    for name, processes, batch, more in (("one", 1, 16, ()), ("two", 2, 8, ("train.fsdp=true",))):
        methods = ([], rankcse(tiny_model), PEERS)
        words = [word for method in methods for word in ("+", RATE, *more, *method)]
        arguments = (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, 0.0, *words)
        torchrun(*map(str, arguments), processes=processes)
    for number in ("", "1", "2"):
        one, two = (load_file(tmp_path / f"{name}{number}-0.safetensors") for name in ("one", "two"))
        began = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
        assert (one["model.0.model.embeddings.word_embeddings.weight"] - began).abs().max() > 1e-3, "it has moved"
        assert one.keys() == two.keys()
        for name, value in one.items():
            assert torch.allclose(value.float(), two[name].float(), atol=1e-5), (number, name)


@pytest.mark.slow
def test_killed_under_torchrun_and_resumed_it_equals_an_unstopped_run(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """With dropout, a second encoder, a queue and a head. The files are those of a run without it."""
    settings = [*PEERS, "train.batch_size=8", "train.save_steps=5", "train.eval_steps=10", "encoder.pooling=mean"]
    settings += ["train.learning_rate=1e-3", "train.fsdp=true", "train.keep_head=true"]
    common = ["-m", "isotrope", "train", str(corpus_file), "--model", str(tiny_model), "--sentences", "480"]
    common += [word for setting in settings for word in ("--set", setting)]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    code, errors, _ = lose(1, stopped, *launcher, *common, "--output", str(stopped))
    assert code != 0
    (line,) = [line for line in errors.splitlines() if line.startswith("isotrope: ")]
    assert "another process of this run has ended" in line
    assert line.endswith("go on with the same command and")
    for output in (stopped, whole):
        command = [sys.executable, *launcher, *common, "--output", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
    for name in ("model/model.safetensors", "checkpoints/checkpoint-30/objective.safetensors"):
        one, two = (load_file(folder / name) for folder in (stopped, whole))
        assert one.keys() == two.keys()
        assert all(torch.equal(value, two[key]) for key, value in one.items())
    names = {path.name for path in (whole / "checkpoints" / "checkpoint-30").iterdir()}
    assert names >= {"model.safetensors", "objective.safetensors", "optimizer.pt", "scheduler.pt", "complete.json"}
    state = torch.load(whole / "checkpoints" / "checkpoint-30" / "optimizer.pt", weights_only=True)
    assert all(type(value) is torch.Tensor for kept in state["state"].values() for value in kept.values())
