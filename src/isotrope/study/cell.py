"""A cell of a study: what it runs, and the only code that reads and writes its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.store.atomic import new_file, write_json
from isotrope.store.cache import file_checksum
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.study.spec import SuiteSettings
from isotrope.training.cosines import read_cosines

KEYS = {
    "label": str, "key": str, "preset": str, "seed": int, "settings": dict, "environment": dict, "scores": dict,
    "data": dict, "seconds": dict, "files": dict,
}  # fmt: skip
COSINES, DRAWS, METRICS = FILES = ("after.npz", "draws.npz", "metrics.jsonl")  # files whose checksums are in the record


@dataclass(frozen=True, slots=True)
class Cell:
    """One training run and its scores, or only the scores of a backbone. All paths are of this machine."""

    label: str
    key: str  # checksum of everything below that decides the result
    folder: Path
    settings: Mapping[str, Any]  # the resolved preset; models that the study trains by their cells' keys
    preset: str
    overrides: tuple[str, ...]
    backbone: str
    teachers: Mapping[str, tuple[str, ...]]
    seed: int
    sentences: int | None
    corpus: tuple[str, ...]
    split: str | None
    keep_duplicates: bool
    data: str | None
    dev: tuple[str, ...] | None
    test: str | None
    suites: Mapping[str, SuiteSettings]
    positives: bool
    train: bool
    then: str
    threads: int
    keep_model: bool
    needs: tuple[str, ...] = ()  # keys of the cells whose models are its backbone or teachers

    @property
    def model(self) -> Path:
        """The folder of the trained model, if it is kept."""
        return self.folder / "model"

    @property
    def result(self) -> Path:
        """The file of the record."""
        return self.folder / "result.json"

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do. If the model is needed and was not kept, it must be trained again."""
        return self.record() is not None and (not self.keep_model or self.model.is_dir())

    @property
    def damaged(self) -> bool:
        """Whether there is a record, but it is damaged or outdated."""
        return self.result.exists() and self.record() is None

    def record(self) -> Record | None:
        """What ``result.json`` holds; None if there is none, or if it or a file that it names is damaged."""
        try:
            record = read_record(self.result, KEYS)
        except UserError:
            return None
        return record if record["key"] == self.key and record["files"] == self._files() else None

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the record. From then on the cell is finished."""
        write_json(self.result, {**record, "label": self.label, "key": self.key, "files": self._files()})

    def cosines(self) -> dict[str, tuple[Any, Any]]:
        """Task -> gold scores and cosines (N,), (N,) of all its pairs; {} if no pairs judged the cell."""
        return {
            task: (np.concatenate([gold for gold, _ in parts.values()]), np.concatenate([c for _, c in parts.values()]))
            for task, parts in read_cosines(self.folder / COSINES).items()
        }

    def draws(self) -> dict[str, Any]:
        """Task -> Spearman on every resample of its pairs (R,); {} if no pairs judged the cell."""
        path = self.folder / DRAWS
        if not path.is_file():
            return {}
        with np.load(path, allow_pickle=False) as file:
            return {task: file[task] for task in file.files}

    def keep_draws(self, draws: Mapping[str, Any]) -> None:
        """Write what `draws` reads."""
        with new_file(self.folder / DRAWS) as file:
            np.savez(file, **draws)

    def metrics(self) -> list[Record]:
        """The records that the run logged."""
        return RecordLog(self.folder / METRICS, writing=False).records

    def _files(self) -> dict[str, str]:
        return {name: file_checksum(self.folder / name) for name in FILES if (self.folder / name).is_file()}
