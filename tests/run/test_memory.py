"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import psutil
import pytest
from transformers import TrainerState

from isotrope.run.memory import STEPS_BETWEEN, GiveBack, give_back


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be asked")
def test_pieces_between_what_is_kept_are_given_back() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    pieces = [bytearray(100_000) for _ in range(3_000)]  # below the size that is mapped alone
    kept = pieces[::30]
    del pieces
    before = psutil.Process().memory_info().rss
    give_back()
    assert psutil.Process().memory_info().rss < before - 50e6
    assert len(kept) == 100


def test_where_there_is_nothing_to_ask_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.run.memory.ctypes.CDLL", lambda _: object())
    give_back()


def test_a_training_gives_back_every_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    state = TrainerState()
    monkeypatch.setattr("isotrope.run.memory.give_back", lambda: steps.append(state.global_step))
    for state.global_step in range(1, 2 * STEPS_BETWEEN + 2):
        GiveBack().on_step_end(None, state, None)
    assert steps == [STEPS_BETWEEN, 2 * STEPS_BETWEEN]
