"""Give freed memory back to the system between the parts of a long work."""

from __future__ import annotations

import ctypes
import gc
import sys


def give_back() -> None:
    """Without it, glibc keeps what batches of many lengths have left in pieces: 0.5 GB after a short training.

    Other systems than Linux do this alone, or cannot be asked; there only Python's own garbage is collected.
    """
    gc.collect()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # musl has none
        trim(0)
