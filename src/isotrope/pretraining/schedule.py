"""How long a run is, where its learning rate begins to fall, and how a new budget changes both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from isotrope.errors import UserError
from isotrope.store.atomic import write_json
from isotrope.store.records import read_record
from isotrope.training.checkpoints import checkpoint_step


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run's length in steps, and the step at which its learning rate begins to fall."""

    steps: int
    decay_start: int

    def write(self, path: Path) -> None:
        """Replace the file at one stroke."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Schedule:
        """The schedule in a file that `write` wrote.

        Raises:
            UserError: it is missing or damaged.
        """
        remedy = "put it back, or choose another --output"
        record = read_record(path, {"steps": int, "decay_start": int}, remedy)
        steps, start = record["steps"], record["decay_start"]
        if not 0 <= start <= steps:
            raise UserError(f"{path} is damaged: decay_start = {start} is not between 0 and {steps}", remedy)
        return cls(steps, start)

    def kept(self, checkpoints: Sequence[Path]) -> list[Path]:
        """Of whole checkpoints, oldest first, those to keep: the last two, and where the decay begins."""
        return [path for path in checkpoints if path in checkpoints[-2:] or checkpoint_step(path) == self.decay_start]


def reschedule(checkpoints: Sequence[Path], old: Schedule, steps: int, decay: float) -> tuple[Schedule, list[Path]]:
    """The schedule for a new budget of ``steps``, and the checkpoints that can be gone on from.

    The learning rate stays high until the last ``decay`` of the budget, and in any case until the checkpoint from which
    the run goes on. A checkpoint from within the old decay cannot be trained on at the full rate: the run goes back to
    where that decay began.

    Args:
        checkpoints: the whole ones, oldest first.
        old: the schedule so far.
        steps: of the new budget.
        decay: a share of the budget.

    Raises:
        UserError: the budget ends before the checkpoint from which the run would go on.
    """
    usable = [path for path in checkpoints if checkpoint_step(path) <= old.decay_start]
    reached = checkpoint_step(usable[-1]) if usable else 0
    if steps <= reached:
        problem = f"tokens: the budget of {steps} steps ends before the checkpoint at step {reached}"
        raise UserError(problem, "give a larger budget")
    return Schedule(steps, max(steps - round(decay * steps), reached)), usable
