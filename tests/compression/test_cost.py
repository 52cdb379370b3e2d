"""Speed, weights and memory of two models: who is faster, by how much, and what cannot be told."""

from pathlib import Path

import numpy as np
import pytest

from conftest import build_bert, sentences
from isotrope.compression import cost
from isotrope.compression.cost import costs, growth, peak_memory
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


def test_growth_is_what_the_work_holds_at_its_peak() -> None:
    """Also of what is given back before its end."""
    size = 200 * 2**20
    found = growth(lambda: np.ones(size // 8).sum())
    assert 0.8 * size < found < 1.5 * size
    assert growth(lambda: None) < 0.1 * size


def test_memory_that_cannot_be_measured_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")
    assert peak_memory(str(tmp_path), TEXTS) is None


@pytest.mark.slow
def test_a_new_process_tells_its_growth(tiny_model: Path) -> None:
    found = peak_memory(str(tiny_model), sentences(4))
    assert found is not None
    assert 0 < found < 2**31
