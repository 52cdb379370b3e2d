"""A training that keeps no freed memory."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from isotrope.encoder.memory import freed_memory


class GiveBack(TrainerCallback):
    """Looks after each step whether freed memory must go back to the system."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All of a step's memory but gradients and weights is free now."""
        freed_memory.check()
