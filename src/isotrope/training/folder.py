"""The folder of a training run: the names of its files, and the one reader and the one writer of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from isotrope.errors import UserError, printable
from isotrope.evaluation.sts import Cosines, Sets
from isotrope.preset.preset import Preset, read_preset
from isotrope.store.atomic import write_json, write_text
from isotrope.store.lock import hold
from isotrope.store.mark import kind_of
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.training.cosines import Scored, read_cosines, write_cosines
from isotrope.training.environment import environment

KIND, MODEL_KIND = "run", "model"  # the marks of the folder and of the model in it
Time = Literal["before", "after"]


class RunFolder:
    """A run on disk.

    These are its files:

        run.json           the identity: everything that decides the result (see `isotrope.training.inputs`)
        preset.toml        the resolved preset
        environment.json   versions, processor, number of threads
        sample.txt         sentences of the corpus, one a line, for the report
        metrics.jsonl      everything that training logs, one record a line
        before.npz         cosines of the judging pairs, by the model before training; after.npz: by the new one
        checkpoints/       what a stopped run resumes from, and the best weights so far
        model/             the new model, in plain sentence-transformers format, without the head unless train.keep_head
        result.json        scores and verdict (see `isotrope.training.judge`); written last
    """

    def __init__(self, path: str | Path) -> None:
        """``path`` may not exist yet; nothing is read or written.

        Raises:
            UserError: ``path`` is empty: an unset variable of the shell would mean the present folder.
        """
        if not str(path):
            raise UserError("the output is empty", "name a folder")
        self.path = Path(path)
        self.model, self.checkpoints = self.path / "model", self.path / "checkpoints"
        self.metrics_file = self.path / "metrics.jsonl"

    def hold(self) -> AbstractContextManager[None]:
        """Take the folder for this process only. If no run begins in it, it is left as it was found.

        Raises:
            UserError: it is not ours, is in use, or cannot be written; its disk is full.
        """
        return hold(self.path, KIND)

    @property
    def begun(self) -> bool:
        """Whether it holds a run, finished or not."""
        return (self.path / "run.json").is_file()

    @property
    def finished(self) -> bool:
        """Whether it holds a run that has its result and its model."""
        weights = kind_of(self.model) == MODEL_KIND and any(self.model.rglob("*.safetensors"))
        return weights and (self.path / "result.json").is_file()

    def begin(self, identity: Mapping[str, Any], preset: Preset, sample: Sequence[str]) -> None:
        """Call it after all checks: write what the run is. The identity comes first: with it, a run can resume."""
        if not self.begun:
            write_json(self.path / "run.json", dict(identity))
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
        return read_record(self.path / "run.json", remedy="choose another --output")

    def preset(self) -> Preset:
        """The resolved preset.

        Raises:
            UserError: there is none yet, or it is damaged.
        """
        if not (path := self.path / "preset.toml").is_file():
            raise UserError(f"{self.path} holds a run that has not begun", "go on with it: isotrope train … --resume")
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
        return self._record("result.json")

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write the result. From then on the run is finished."""
        write_json(self.path / "result.json", dict(result))

    def _record(self, name: str) -> Record:
        path = self.path / name
        remedy = "delete it, and go on with isotrope train --resume"
        return read_record(path, remedy=remedy) if path.is_file() else {}
