"""Checkpoints: a mark says that one is ours, checksums say that it is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from isotrope.store.atomic import sync, write_json
from isotrope.store.cache import file_checksum
from isotrope.store.mark import check_place, claim, remove

SEAL = "complete.json"  # file name -> its checksum; written last
MARKED_AS = "checkpoint"  # of the mark


class MarkedCheckpoints:
    """A mixin for a transformers Trainer (first among its bases): marks every checkpoint folder before it is filled.

    Raises:
        UserError: while training, if the folder of a checkpoint holds something that is not ours.
    """

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
    """The checkpoints that a run can resume from, oldest first. ``warn`` gets a line for each damaged one.

    Raises:
        UserError: a folder has the name of a checkpoint but is not ours.
    """
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
