"""What a run resumes from: a whole checkpoint, the log up to it, and the best weights that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.store.atomic import write_json
from isotrope.store.cache import file_checksum
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.training.checkpoints import checkpoint_folder, keep_newest, keep_only, seal, whole_checkpoints
from isotrope.training.log import MetricsLog
from isotrope.training.selection import Selection

LOG, BEST = "metrics.jsonl", "best.json"  # in a checkpoint
KEPT = 2  # checkpoints: the older one serves where the newer is damaged


class Sealing(TrainerCallback):
    """The last callback: completes a checkpoint, then deletes older ones."""

    def __init__(self, log: MetricsLog, selection: Selection) -> None:
        self.log, self.selection = log, selection

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Add the log and the best weights' checksum to the checkpoint, then a checksum of every file."""
        if dist.is_available() and dist.is_initialized():
            dist.barrier()  # each process has written its random state
        if not state.is_world_process_zero:
            return
        folder, checkpoint = Path(args.output_dir), checkpoint_folder(Path(args.output_dir), state.global_step)
        kept = RecordLog(checkpoint / LOG)
        kept.records = list(self.log.records)
        kept.keep(len(kept.records))
        best = self.selection.best_weights
        write_json(checkpoint / BEST, {best.name: file_checksum(best)} if best else {})
        seal(checkpoint)
        keep_newest(folder, KEPT)
        prune_weights(folder, best)


def last_checkpoint(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that a run can resume from exactly. Newer, damaged ones are reported and deleted.

    Raises:
        UserError: a folder has the name of a checkpoint but is not ours.
    """
    whole = whole_checkpoints(folder, warn)
    usable = [checkpoint for checkpoint in whole if _has_best(checkpoint, warn)]
    last = usable[-1] if usable else None
    keep_only(folder, usable)
    prune_weights(folder, None)
    return last


def records_of(checkpoint: Path | None) -> list[Record]:
    """The log as it was when the checkpoint was written."""
    return RecordLog(checkpoint / LOG, writing=False).records if checkpoint else []


def prune_weights(folder: Path, best: Path | None) -> None:
    """Delete all best weights except ``best`` and those that a checkpoint names."""
    needed = {name for path in folder.glob(f"checkpoint-*/{BEST}") for name in read_record(path)}
    for path in folder.glob("best-*.safetensors"):
        ours = re.fullmatch(r"best-\d+\.safetensors", path.name) and path.is_file()
        if ours and path != best and path.name not in needed:
            path.unlink()


def _has_best(checkpoint: Path, warn: Callable[[str], None]) -> bool:
    for name, total in read_record(checkpoint / BEST).items():
        path = checkpoint.parent / name
        if not path.is_file() or file_checksum(path) != total:
            warn(f"{path} is missing or damaged, so {checkpoint} is not used")
            return False
    return True
