"""Several processes: their result, their launcher, their errors."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from conftest import ROOT, sentences
from small_runs import torchrun


def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps without dropout: equal weights, head included. With dropout: equal heads on both ranks."""
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    for name, processes, batch, dropout in (("two", 2, 8, 0.0), ("one", 1, 16, 0.0), ("wet", 2, 8, 0.1)):
        torchrun(
            *map(str, (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, dropout)),
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
