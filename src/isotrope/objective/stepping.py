"""What an objective knows of the training around it: the number of the step, and that the optimizer has made one."""

from typing import Any

import torch
from torch import Tensor, nn


class Stepping(nn.Module):
    """Counts its own steps. Components that have ``after_step(objective)`` hear of each."""

    parts: list[Any]
    teachers: dict[str, Any]
    step: int

    def after_step(self) -> None:
        """Tell the components that ask for it that the optimizer has made a step (moving averages, queues)."""
        for part in (*self.parts, *self.teachers.values()):
            if hasattr(part, "after_step"):
                part.after_step(self)

    def get_extra_state(self) -> Tensor:
        """Saved with the weights: the random steps go on where they were."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the step number from a saved state."""
        self.step = int(state)
