"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import psutil
import pytest

from isotrope.run.memory import GiveBack, give_back


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


def test_a_training_gives_back_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, given = [0.0], []
    monkeypatch.setattr("isotrope.run.memory.time.monotonic", lambda: now[0])
    monkeypatch.setattr("isotrope.run.memory.give_back", lambda: given.append(now[0]))
    callback = GiveBack()
    for now[0] in (1.0, 9.0, 11.0, 15.0, 20.0, 21.5, 90.0):
        callback.on_step_end(None, None, None)
    assert given == [11.0, 21.5, 90.0]
