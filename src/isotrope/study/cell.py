"""A cell of a study: what it runs, and the files of its folder, which is a job
(`isotrope.store.job`).

Beside ``result.json``, ``numbers/`` has the cosines of the test pairs, their bootstrap draws and
the training curve.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from isotrope.store.files import Record, RecordLog
from isotrope.store.job import Job
from isotrope.study.spec import CommonSettings, RowSettings
from isotrope.text import TextSource
from isotrope.training.folder import task_cosines

MODEL, NUMBERS = "model", "numbers"
COSINES, DRAWS, METRICS = "after.npz", "draws.npz", "metrics.jsonl"
# so that p is 0.0001 at least, and still significant after correction for hundreds of rows
RESAMPLES = 19_999


@dataclass(frozen=True, slots=True)
class Cell:
    """One training run and its scores, or only the scores of a backbone. All paths are of this
    machine.
    """

    label: str
    key: str  # checksum of everything below that decides the result
    folder: Path
    row: RowSettings
    run: CommonSettings
    # the resolved preset; models that the study trains by their cells' keys
    settings: Mapping[str, Any]
    overrides: tuple[str, ...]
    backbone: str
    teachers: Mapping[str, tuple[str, ...]]
    seed: int
    sentences: int | None
    corpus: TextSource
    data: str | None
    keep_model: bool
    documents: TextSource | None = None  # tasks made from them judge too
    needs: tuple[str, ...] = ()  # keys of the cells whose models are its backbone or teachers

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed}"

    @property
    def model(self) -> Path:
        """The trained model, if it is kept."""
        return self.folder / MODEL

    @property
    def numbers(self) -> Path:
        """The folder of the files beside the record."""
        return self.folder / NUMBERS

    @property
    def log(self) -> str:
        """What its process said: a path within the study's folder, since records hold no paths of
        this machine.
        """
        return f"cells/{self.beside('log').name}"

    def beside(self, ending: str) -> Path:
        """What its process said (``log``), and one line if it failed (``error.txt``)."""
        return self.folder.with_name(f"{self.folder.name}.{ending}")

    @property
    def job(self) -> Job:
        """The folder as a job."""
        return Job(self.folder, "cell", {"key": self.key})

    def record(self) -> Record | None:
        """What came out; None if something is left to do, also if the model is needed and was not
        kept.
        """
        record = self.job.result()
        return record if record and (not self.keep_model or record["kept_model"]) else None

    def finish(self, record: Mapping[str, Any]) -> Record:
        """Write the record. From then on the cell is finished."""
        kept = self.model.is_dir()
        whole = {**record, "label": self.label, "key": self.key, "kept_model": kept}
        return self.job.finish(whole, [NUMBERS, MODEL] if kept else [NUMBERS])

    def cosines(self) -> dict[str, tuple[Any, Any]]:
        """Task -> gold scores and cosines (N,), (N,) of all its pairs; {} if no pairs judged the
        cell.
        """
        return task_cosines(self.numbers / COSINES)

    def draws(self) -> dict[str, Any]:
        """Task -> Spearman on every resample of its pairs (R,); {} if no pairs judged the cell."""
        path = self.numbers / DRAWS
        return dict(np.load(path, allow_pickle=False)) if path.is_file() else {}

    def metrics(self) -> list[Record]:
        """The records that the run logged."""
        return RecordLog(self.numbers / METRICS, writing=False).records


def cells_summary(results: Mapping[str, Mapping[str, Any]]) -> Record:
    """Key -> a cell's ``result.json`` without its scores, which the rows have; what many cells
    share is stored once.

    ``settings`` is checksum -> resolved preset; for ``data`` and ``environments`` a cell has an
    index into the list.
    """
    record: Record = {"cells": {}, "settings": {}, "data": [], "environments": []}

    def place(name: str, value: Any) -> int:
        if value not in record[name]:
            record[name].append(value)
        return int(record[name].index(value))

    for key, result in results.items():
        settings = without_paths(result["settings"])
        checksum = xxhash.xxh3_64_hexdigest(json.dumps(settings, sort_keys=True).encode())
        record["settings"][checksum] = settings
        record["cells"][key] = {
            **{name: result[name] for name in ("preset", "seed", "seconds")},
            "settings": checksum,
            "data": place("data", result["data"]),
            "environment": place("environments", result["environment"]),
        }
    return record


def without_paths(value: Any) -> Any:
    """A value without paths of this machine: of an absolute path only the last two names are kept."""
    if isinstance(value, Mapping):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return (
        "/".join(Path(value).parts[1:][-2:])
        if isinstance(value, str) and Path(value).is_absolute()
        else value
    )
