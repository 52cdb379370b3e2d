"""Cosines of the judging pairs and their gold scores in one .npz file: keys ``task/part`` and ``task/part/gold``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.sts import Cosines, Sets
from isotrope.store.atomic import new_file
from isotrope.types import Vector

Scored = dict[str, dict[str, tuple[Vector, Vector]]]  # task -> part -> gold scores (N,), cosines (N,)


def write_cosines(path: Path, sets: Sets, cosines: Cosines) -> None:
    """Keep the cosines of each set's pairs, and their gold scores."""
    flat = {f"{task}/{part}": values for task, parts in cosines.items() for part, values in parts.items()}
    flat |= {f"{task}/{part}/gold": pairs.gold for task, parts in sets.items() for part, pairs in parts.items()}
    with new_file(path) as file:
        np.savez(file, **flat)  # type: ignore[arg-type]


def read_cosines(path: Path) -> Scored:
    """What `write_cosines` wrote; {} if there is no such file.

    Raises:
        UserError: the file is damaged.
    """
    found: Scored = {}
    if not path.is_file():
        return found
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                if not key.endswith("/gold"):
                    task, part = key.split("/")
                    found.setdefault(task, {})[part] = (file[f"{key}/gold"], file[key])
    except Exception as error:  # a damaged archive raises nearly anything: RuntimeError, NotImplementedError, …
        raise UserError(f"{path} is damaged", "delete it: isotrope train --resume makes it again") from error
    return found


def only_cosines(scored: Scored) -> dict[str, dict[str, Vector]]:
    """The same without the gold scores."""
    return {task: {part: cosines for part, (_, cosines) in parts.items()} for task, parts in scored.items()}
