"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import psutil
import pytest

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
