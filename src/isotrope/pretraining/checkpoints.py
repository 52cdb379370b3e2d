"""Which checkpoints exist whole, which of them a budget can go on from, and which may go."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from isotrope.errors import UserError

WHOLE = "whole"  # an empty file, written last: a checkpoint without it was cut off and does not count
KEPT = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run is, in steps, and where its learning rate begins to fall."""

    steps: int
    decay_start: int

    def write(self, path: Path) -> None:
        """Replace the file at one stroke."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Plan:
        """The plan in a file that `write` wrote."""
        return cls(**json.loads(path.read_text()))


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def whole(folder: Path) -> list[Path]:
    """Complete checkpoints, the oldest first."""
    return sorted((mark.parent for mark in folder.glob(f"checkpoint-*/{WHOLE}")), key=step_of)


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete, after its files have reached the disk."""
    for file in [*checkpoint.iterdir(), checkpoint]:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    (checkpoint / WHOLE).touch()


def tidy(folder: Path, decay_start: int) -> None:
    """Delete cut-off checkpoints and all whole ones but the last two and the one where the decay begins."""
    complete = whole(folder)
    kept = {*complete[-KEPT:], *(path for path in complete if step_of(path) == decay_start)}
    for path in set(folder.glob("checkpoint-*")) - kept:
        shutil.rmtree(path)


def replan(folder: Path, old: Plan, steps: int, decay: float) -> tuple[Plan, list[Path]]:
    """The plan for a new budget of `steps`, and the checkpoints that it must forget.

    The learning rate stays high until the last `decay` of the budget, and in any case until the checkpoint from which
    the run goes on. A checkpoint from within the old decay cannot be trained on at the full rate: the run goes back to
    where that decay began. Raises UserError where the budget ends before that point.
    """
    complete = whole(folder)
    usable = [path for path in complete if step_of(path) <= old.decay_start]
    reached = step_of(usable[-1]) if usable else 0
    if steps <= reached:
        raise UserError(
            f"tokens: the budget of {steps} steps ends before the checkpoint at step {reached}", "give a larger budget"
        )
    plan = Plan(steps, max(steps - round(decay * steps), reached))
    return plan, [path for path in complete if path not in usable]
