"""Give freed memory back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

from transformers import TrainerCallback, TrainerState

STEPS_BETWEEN = 25  # so seldom that a step takes no longer


def give_back() -> None:
    """Without it, glibc keeps what batches of many lengths have left in pieces.

    Other systems than Linux do this alone, or cannot be asked; there only Python's own garbage is collected.
    """
    gc.collect()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # musl has none
        trim(0)


class GiveBack(TrainerCallback):
    """Calls `give_back` every few steps, so that a long training needs no more memory than a short one."""

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """At every 25th step."""
        if state.global_step % STEPS_BETWEEN == 0:
            give_back()
