"""A training looks after each step whether freed memory must go back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from isotrope.training.memory import GiveBack


def test_a_training_looks_after_each_step_and_gives_all_back_before_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    freed = SimpleNamespace(check=lambda: done.append("check"), give_back=lambda: done.append("give back"))
    monkeypatch.setattr("isotrope.training.memory.freed_memory", freed)
    flags = ("should_evaluate", "should_save", "should_training_stop")
    for asked in (None, *flags, None):
        control = SimpleNamespace(**{flag: flag == asked for flag in flags})
        GiveBack().on_step_end(None, None, control)
    assert done == ["check", "give back", "give back", "give back", "check"]
