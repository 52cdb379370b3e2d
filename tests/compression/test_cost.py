"""Speed, weights and memory of two models: who is faster, by how much, and what cannot be told."""

from pathlib import Path

import pytest
import torch

from conftest import build_bert, sentences
from isotrope.compression import cost
from isotrope.compression.cost import costs, one_thread, peak_memory, speed
from isotrope.encoder import load

TEXTS = sentences(16)


def test_the_smaller_model_is_faster_in_every_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "peak_memory", lambda name, texts: 10**9 if name == "large" else None)
    large = load(build_bert(tmp_path / "large", hidden=128, layers=6), device="cpu")
    small = load(build_bert(tmp_path / "small", hidden=16, layers=1), device="cpu")
    found = costs(large, small, ["large", "small"], TEXTS)
    assert 1 < found["faster"]["low"] <= found["faster"]["median"] <= found["faster"]["high"]
    assert found["speed"][1] > found["speed"][0] > 0
    assert found["weights"][0] == sum(4 * p.numel() for p in large.parameters())
    assert found["weights"][1] < found["weights"][0] / 10
    assert found["memory"] == [10**9, None]
    assert found["texts"] == 16


def test_models_take_turns_and_the_first_round_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    clock = iter(range(10_000))
    monkeypatch.setattr("time.process_time", lambda: float(next(clock)))
    monkeypatch.setattr(cost, "vectors_of", lambda model, *_, **__: turns.append(model))
    monkeypatch.setattr(cost, "cut", lambda *_: one_thread())
    found = speed(["large", "small"], TEXTS)  # type: ignore[list-item]
    assert turns[:4] == ["small", "large", "large", "small"]
    assert len(turns) == 2 * (cost.ROUNDS + 1)
    assert found["faster"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert found["speed"] == [16.0, 16.0]


def test_one_thread_for_a_while() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_memory_that_cannot_be_measured_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")  # a program that fails
    assert peak_memory(str(tmp_path), TEXTS) is None
    monkeypatch.setattr("sys.executable", "true")  # one that says nothing
    assert peak_memory(str(tmp_path), TEXTS) is None
