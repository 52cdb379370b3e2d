"""The folder of a training run: the names of its files, and the one reader and the one writer of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from isotrope.errors import UserError, printable
from isotrope.evaluation.sts import Cosines, Sets
from isotrope.preset.preset import Preset, read_preset
from isotrope.store.atomic import new_file, write_json, write_text
from isotrope.store.job import IDENTITY, RESULT, Job
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.training.environment import environment
from isotrope.types import Vector

KIND = "run"  # the mark of the folder
AGAIN = "delete it, and give the same isotrope train again"
Time = Literal["before", "after"]
Scored = dict[str, dict[str, tuple[Vector, Vector]]]  # task -> part -> gold scores (N,), cosines (N,)


class RunFolder:
    """A run on disk.

    These are its files:

        job.json           the identity: everything that decides the result (see `isotrope.training.inputs`)
        preset.toml        the resolved preset
        environment.json   versions, processor, number of threads
        sample.txt         sentences of the corpus, one a line, for the report
        metrics.jsonl      everything that training logs, one record a line
        before.npz         cosines of the judging pairs, by the model as it was given; after.npz: by the new one
        checkpoints/       what a stopped run resumes from, and the best weights so far
        model/             the new model, in plain sentence-transformers format, without the head unless train.keep_head
        result.json        scores and verdict (see `isotrope.training.judge`); written last
    """

    def __init__(self, path: str | Path) -> None:
        """``path`` may not exist yet; nothing is read or written."""
        self.path = Path(path)
        self.model, self.checkpoints = self.path / "model", self.path / "checkpoints"
        self.metrics_file = self.path / "metrics.jsonl"

    @property
    def begun(self) -> bool:
        """Whether it holds a run, finished or not."""
        return (self.path / IDENTITY).is_file()

    @property
    def finished(self) -> bool:
        """Whether it holds a run that has its result and its model."""
        return Job(self.path, KIND, {}).result() is not None

    def begin(self, preset: Preset, sample: Sequence[str]) -> None:
        """Write what the report will want to know, unless an earlier process has done so."""
        for name, text in (
            ("preset.toml", printable(preset.toml())),
            ("sample.txt", "".join(f"{s}\n" for s in sample)),
        ):
            if not (self.path / name).is_file():
                write_text(self.path / name, text)
        if not (self.path / "environment.json").is_file():
            write_json(self.path / "environment.json", environment())

    def identity(self) -> Record:
        """Everything that decides the result.

        Raises:
            UserError: the folder holds no run, or the file is damaged.
        """
        if not self.begun:
            raise UserError(f"{self.path} holds no run", "name the folder that isotrope train wrote (its --output)")
        return read_record(self.path / IDENTITY, remedy="choose another --output")

    def preset(self) -> Preset:
        """The resolved preset.

        Raises:
            UserError: there is none yet, or it is damaged.
        """
        if not (path := self.path / "preset.toml").is_file():
            raise UserError(f"{self.path} holds a run that has not begun", "give the same isotrope train again")
        return read_preset(path)

    def environment(self) -> Record:
        """Versions and processor of the run; {} if they were not kept."""
        return self._record("environment.json")

    def sample(self) -> list[str]:
        """Sentences of the corpus; [] if they were not kept."""
        path = self.path / "sample.txt"
        return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []

    def metrics(self) -> list[Record]:
        """The records of the training so far, without a damaged last line."""
        return RecordLog(self.metrics_file, writing=False).records

    def cosines(self, time: Time) -> Scored:
        """Task -> part -> gold scores and cosines of the judging pairs; {} if they were not kept.

        Raises:
            UserError: the file is damaged.
        """
        return read_cosines(self.path / f"{time}.npz")

    def write_cosines(self, time: Time, sets: Sets, cosines: Cosines) -> None:
        """Keep the cosines, so that a resumed run does not encode again."""
        write_cosines(self.path / f"{time}.npz", sets, cosines)

    def result(self) -> Record:
        """Scores and verdict; {} while the run is unfinished.

        Raises:
            UserError: the file is damaged.
        """
        return self._record(RESULT)

    def _record(self, name: str) -> Record:
        path = self.path / name
        return read_record(path, remedy=AGAIN) if path.is_file() else {}


def write_cosines(path: Path, sets: Sets, cosines: Cosines) -> None:
    """Keep the cosines of each set's pairs, and their gold scores: keys ``task/part`` and ``task/part/gold``."""
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
        raise UserError(f"{path} is damaged", AGAIN) from error
    return found


def only_cosines(scored: Scored) -> dict[str, dict[str, Vector]]:
    """The same without the gold scores."""
    return {task: {part: cosines for part, (_, cosines) in parts.items()} for task, parts in scored.items()}
