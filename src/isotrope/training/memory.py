"""A training that keeps no freed memory."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from isotrope.encoder.memory import freed_memory


class GiveBack(TrainerCallback):
    """Gives freed memory back: what the steps leave, and all before the model is evaluated or saved."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All of a step's memory but gradients and weights is free now."""
        if control.should_evaluate or control.should_save or control.should_training_stop:
            freed_memory.give_back()
        else:
            freed_memory.check()
