"""The folder of a training run: its files, and the one reader and the one writer of each."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError, printable
from isotrope.evaluation.sts import Cosines, SimilaritySets
from isotrope.preset.preset import Preset, read_preset
from isotrope.store.files import Record, RecordLog, new_file, read_record, write_text
from isotrope.store.job import IDENTITY, RESULT, Job
from isotrope.training.processes import environment
from isotrope.types import Vector

KIND = "run"  # the mark of the folder
AGAIN = "delete it, and give the same isotrope train again"
# task -> gold scores (N,) and cosines (N,) of all its parts
TaskCosines = dict[str, tuple[Vector, Vector]]


class RunFolder:
    """A run on disk. Its contents are read when they are asked for first; what was not kept is
    empty.

    These are its files:

        job.json           the identity: everything that decides the result (see
            `isotrope.training.inputs`)
        preset.toml        the resolved preset
        environment.json   versions, processor, number of threads
        sample.txt         sentences of the corpus, one a line, for studies
        metrics.jsonl      everything that training logs, one record a line
        before.npz         cosines of the judging pairs, by the model as it was given
        after.npz          the same, by the new model
        checkpoints/       what a stopped run resumes from; one has the best weights so far
        model/             the new model, in plain sentence-transformers format, without the head
            unless train.keep_head
        result.json        scores and verdict (see `isotrope.training.judge`); written last
    """

    def __init__(self, path: str | Path) -> None:
        """``path`` may not exist yet; nothing is read or written."""
        self.path = Path(path)
        self.model = self.path / "model"
        self.checkpoints = self.path / "checkpoints"
        self.metrics_file = self.path / "metrics.jsonl"

    @property
    def finished(self) -> bool:
        """Whether it holds a run that has its result and its model."""
        return Job(self.path, KIND, {}).result() is not None

    def begin(self, preset: Preset, sample: Sequence[str]) -> None:
        """Write what the report will want to know, unless an earlier process has done so."""
        texts = {
            "preset.toml": printable(preset.toml()),
            "sample.txt": "".join(f"{text}\n" for text in sample),
            "environment.json": json.dumps(environment(), indent=2) + "\n",
        }
        for name, text in texts.items():
            if not (self.path / name).is_file():
                write_text(self.path / name, text)

    @cached_property
    def identity(self) -> Record:
        if not (self.path / IDENTITY).is_file():
            remedy = "name the folder that isotrope train wrote (its --output)"
            raise UserError(f"{self.path} holds no run", remedy, code="no-run")
        return read_record(self.path / IDENTITY, remedy="choose another --output")

    @cached_property
    def preset(self) -> Preset:
        return read_preset(self.path / "preset.toml")

    @cached_property
    def result(self) -> Record:
        """It is empty while the run is unfinished."""
        path = self.path / RESULT
        return read_record(path, remedy=AGAIN) if path.is_file() else {}

    @cached_property
    def sample(self) -> list[str]:
        path = self.path / "sample.txt"
        if not path.is_file():
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()

    @cached_property
    def metrics(self) -> list[Record]:
        """The records of the training so far, without a damaged last line."""
        records = RecordLog(self.metrics_file, writing=False).records
        return [record for record in records if isinstance(record.get("step"), int)]


def write_cosines(path: Path, sets: SimilaritySets, cosines: Cosines) -> None:
    """Keep the cosines of each set's pairs, and their gold scores: keys ``task/part`` and
    ``task/part/gold``.
    """
    arrays: dict[str, Any] = {}
    for task, parts in cosines.items():
        for name, values in parts.items():
            arrays[f"{task}/{name}"] = values
            arrays[f"{task}/{name}/gold"] = sets[task][name].gold
    with new_file(path) as file:
        np.savez(file, **arrays)


def task_cosines(path: Path) -> TaskCosines:
    """What `write_cosines` wrote, the parts of each task joined; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:
        # A damaged archive raises nearly anything: RuntimeError, NotImplementedError, …
        raise UserError(f"{path} is damaged", AGAIN, code="damaged-cosines") from error

    gold: dict[str, list[Vector]] = defaultdict(list)
    cosines: dict[str, list[Vector]] = defaultdict(list)
    for key, values in arrays.items():
        if not key.endswith("/gold"):
            task = key.split("/")[0]
            gold[task].append(arrays[f"{key}/gold"])
            cosines[task].append(values)
    joined: TaskCosines = {}
    for task in gold:
        joined[task] = (np.concatenate(gold[task]), np.concatenate(cosines[task]))
    return joined
