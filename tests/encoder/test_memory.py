"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import psutil
import pytest

from isotrope.encoder import load
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.memory import FreedMemory, give_back


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
    monkeypatch.setattr("isotrope.encoder.memory.ctypes.CDLL", lambda _: object())
    give_back()


def test_memory_goes_back_when_it_has_grown_by_100_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    held, given = [0], []
    monkeypatch.setattr(psutil.Process, "memory_info", lambda _: SimpleNamespace(rss=held[0] * 1_000_000))
    monkeypatch.setattr("isotrope.encoder.memory.give_back", lambda: given.append(held[0]))
    freed = FreedMemory()
    for held[0] in (1000, 1050, 1100, 1101, 900, 950, 1001, 800, 899):  # 900 and 800: the first after giving back
        freed.check()
    assert given == [1101, 1001]
    freed.give_back()
    for held[0] in (1000, 1100):  # another kind of work
        freed.check()
    assert given == [1101, 1001, 899]


def test_an_encoding_looks_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr("isotrope.encoder.embed.freed_memory", SimpleNamespace(check=lambda: looked.append(1)))
    vectors_of(load("isotrope/tiny"), [f"text {number}" for number in range(5)], batch_size=2)
    assert len(looked) == 3
