"""Checkpoints: a mark says that one is ours, checksums say that it is whole; what a run resumes from."""

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.store.atomic import sync, write_json
from isotrope.store.cache import file_checksum
from isotrope.store.mark import check_place, claim, remove
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.training.selection import Selection

SEAL = "complete.json"  # file name -> its checksum; written last
LOG, BEST = "metrics.jsonl", "best.json"  # in a checkpoint
MARKED_AS = "checkpoint"  # of the mark
KEPT = 2  # checkpoints: the older one serves if the newer is damaged


class MarkedCheckpoints:
    """A mixin for a transformers Trainer (first among its bases): marks every checkpoint folder before it is filled."""

    args: Any
    state: Any

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        if self.args.should_save:
            claim(checkpoint_folder(Path(self.args.output_dir), self.state.global_step), MARKED_AS)
        super()._save_checkpoint(*args, **kwargs)  # type: ignore[misc]


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Where transformers' Trainer puts the checkpoint of a step."""
    return folder / f"checkpoint-{step}"


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def seal(checkpoint: Path) -> None:
    """Wait until the files are on the disk, then write their checksums: from then on the checkpoint is whole."""
    for path in (*checkpoint.rglob("*"), checkpoint):
        sync(path)
    write_json(checkpoint / SEAL, _contents(checkpoint))


def whole_checkpoints(folder: Path, warn: Callable[[str], None] = lambda line: None) -> list[Path]:
    """The checkpoints that a run can resume from, oldest first. ``warn`` gets a line for each damaged one."""
    found = []
    for path in _all(folder):
        check_place(path, MARKED_AS)
        if _intact(path):
            found.append(path)
        elif (path / SEAL).is_file():
            warn(f"{path} is damaged; it is not used")
    return found


def keep_only(folder: Path, kept: Collection[Path]) -> None:
    """Delete all checkpoints except ``kept``. Folders without our mark are never deleted."""
    for path in _all(folder):
        if path not in kept:
            claim(path, MARKED_AS)  # a kill may have cut its mark short
            remove(path)


def keep_newest(folder: Path, count: int) -> None:
    """Delete all but the newest ``count``, by their steps."""
    keep_only(folder, _all(folder)[-count:])


class Sealing(TrainerCallback):
    """The last callback: completes a checkpoint, then deletes older ones."""

    def __init__(self, log: RecordLog, selection: Selection) -> None:
        self.log, self.selection = log, selection

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Add the log and the best weights' checksum to the checkpoint, then a checksum of every file."""
        if dist.is_available() and dist.is_initialized():
            dist.barrier()  # each process has written its random state
        if not state.is_world_process_zero:
            return
        folder, checkpoint = Path(args.output_dir), checkpoint_folder(Path(args.output_dir), state.global_step)
        RecordLog(checkpoint / LOG).keep(self.log.records)
        best = self.selection.best_weights
        write_json(checkpoint / BEST, {best.name: file_checksum(best)} if best else {})
        seal(checkpoint)
        keep_newest(folder, KEPT)
        prune_weights(folder, best)


def last_checkpoint(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that a run can resume from exactly. Newer, damaged ones are reported and deleted."""
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


def _contents(checkpoint: Path) -> dict[str, str]:
    """Path within the checkpoint -> checksum of each file, but for the seal, the mark and drafts."""
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    own = [path for path in files if path.name != SEAL and not path.name.startswith(".")]
    return {path.relative_to(checkpoint).as_posix(): file_checksum(path) for path in own}


def _all(folder: Path) -> list[Path]:
    named = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(named, key=checkpoint_step)


def _intact(checkpoint: Path) -> bool:
    try:
        expected = json.loads((checkpoint / SEAL).read_text(encoding="utf-8"))
        return bool(expected == _contents(checkpoint))
    except (OSError, ValueError, RecursionError):
        return False
