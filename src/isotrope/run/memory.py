"""Give freed memory back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from typing import Any

from transformers import TrainerCallback

SECONDS_BETWEEN = 10.0  # so seldom that training takes no longer


def give_back() -> None:
    """Without it, glibc keeps what batches of many lengths have left in pieces.

    Other systems than Linux do this alone, or cannot be asked; there only Python's own garbage is collected.
    """
    gc.collect()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # musl has none
        trim(0)


class GiveBack(TrainerCallback):
    """Calls `give_back` every ten seconds. The slow steps of large models leave the most pieces."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the first step that ends so late."""
        if time.monotonic() - self._last >= SECONDS_BETWEEN:
            give_back()
            self._last = time.monotonic()
