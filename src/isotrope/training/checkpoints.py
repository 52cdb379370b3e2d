"""Checkpoints: a mark says that one is ours, checksums say that it is whole; what a run resumes
from.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.store.cache import is_whole
from isotrope.store.files import (
    CONTENTS,
    Record,
    RecordLog,
    check_place,
    checksums,
    claim,
    remove,
    sync,
    write_json,
)
from isotrope.training.processes import process_count

LOG = "metrics.jsonl"  # in a checkpoint
MARKED_AS = "checkpoint"


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Where transformers' Trainer puts the checkpoint of a step."""
    return folder / f"checkpoint-{step}"


def checkpoint_step(checkpoint: Path | None) -> int:
    """The step after which a checkpoint was written; 0 without one."""
    return int(checkpoint.name.removeprefix("checkpoint-")) if checkpoint else 0


def seal(checkpoint: Path) -> None:
    """Wait until the files are on the disk, then write their checksums: from then on the checkpoint
    is whole.
    """
    for path in (*checkpoint.rglob("*"), checkpoint):
        sync(path)
    write_json(checkpoint / CONTENTS, checksums(checkpoint))


def last_checkpoint(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that a run can resume from exactly: it is whole, and so is the best one
    before it. All others are deleted, and ``warn`` gets a line for each damaged one.
    """
    whole = _whole_checkpoints(folder, warn)
    usable = []
    for checkpoint in whole:
        best = _best_before(checkpoint)
        if best is None or best in whole:
            usable.append(checkpoint)
    _delete_others(folder, usable)
    return usable[-1] if usable else None


def _whole_checkpoints(folder: Path, warn: Callable[[str], None]) -> list[Path]:
    """The checkpoints without damage, oldest first."""
    whole = []
    for checkpoint in _all_checkpoints(folder):
        check_place(checkpoint, MARKED_AS)
        if is_whole(checkpoint, MARKED_AS):
            whole.append(checkpoint)
        elif (checkpoint / CONTENTS).is_file():
            warn(f"{checkpoint} is damaged; it is not used")
    return whole


def _delete_others(folder: Path, keep: Collection[Path | None]) -> None:
    """Delete all checkpoints but these. Folders without our mark are never deleted."""
    for checkpoint in _all_checkpoints(folder):
        if checkpoint not in keep:
            claim(checkpoint, MARKED_AS)  # a kill may have cut its mark short
            remove(checkpoint)


def _all_checkpoints(folder: Path) -> list[Path]:
    checkpoints = []
    for path in folder.glob("checkpoint-*"):
        if re.fullmatch(r"checkpoint-\d+", path.name):
            checkpoints.append(path)
    return sorted(checkpoints, key=checkpoint_step)


def records_of(checkpoint: Path | None) -> list[Record]:
    """The log as it was when the checkpoint was written."""
    return RecordLog(checkpoint / LOG, writing=False).records if checkpoint else []


def best_of(records: Sequence[Record]) -> Record | None:
    """The evaluation with the highest dev score, and the first of equal ones; None if there is no
    score.
    """
    scored = [record for record in records if math.isfinite(record.get("score", math.nan))]
    return max(scored, key=_score, default=None)


def _score(record: Record) -> float:
    return float(record["score"])


def _best_before(checkpoint: Path) -> Path | None:
    """The checkpoint with the best weights up to this one; None if no dev pairs select."""
    best = best_of(records_of(checkpoint))
    return checkpoint_folder(checkpoint.parent, best["step"]) if best else None


class SealCheckpoint(TrainerCallback):
    """The last callback: completes a checkpoint, then deletes older ones, but for the best."""

    def __init__(self, log: RecordLog) -> None:
        self.log = log

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Add the log to the checkpoint, then a checksum of every file."""
        if process_count() > 1:
            dist.barrier()  # each process has written its random state
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        checkpoint = checkpoint_folder(folder, state.global_step)
        RecordLog(checkpoint / LOG).keep(self.log.records)
        seal(checkpoint)
        newest = _all_checkpoints(folder)[-2:]  # the older one serves if the newer is damaged
        _delete_others(folder, {*newest, *map(_best_before, newest)})
