"""A training looks after each step whether freed memory must go back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from isotrope.run.memory import GiveBack


def test_a_training_looks_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr("isotrope.run.memory.freed_memory", SimpleNamespace(check=lambda: looked.append(1)))
    callback = GiveBack()
    for _ in range(3):
        callback.on_step_end(None, None, None)
    assert len(looked) == 3
