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
from isotrope.study.record import CellResult, CellSummary, Measurement, RecordedCells
from isotrope.study.spec import CommonSettings, RowSettings, Settings
from isotrope.text import TextSource
from isotrope.training.folder import task_cosines

# folders of a cell, and files of its numbers
MODEL = "model"
NUMBERS = "numbers"
COSINES = "after.npz"
DRAWS = "draws.npz"
METRICS = "metrics.jsonl"
THREADS = 1  # of its process, since the last digits of scores depend on their number
# so that p is 0.0001 at least, and still significant after correction for hundreds of rows
RESAMPLES = 19_999


@dataclass(frozen=True, slots=True)
class Cell:
    """One training run and its scores, or only the scores of a backbone. All paths are of this
    machine.
    """

    label: str
    key: str  # checksum of everything below that decides the result
    output: Path  # the study's folder
    row: RowSettings
    run: CommonSettings
    # the resolved preset; models that the study trains by their cells' keys
    settings: Record
    overrides: Settings
    backbone: str
    teachers: Mapping[str, tuple[str, ...]]
    seed: int
    corpus: TextSource
    data: str | None
    documents: TextSource | None  # tasks made from them judge too
    needs: tuple[str, ...]  # keys of the cells whose models are its backbone or teachers
    keep_model: bool = False

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where its files lie. It is named for the reader, and by the key."""
        preset = Path(self.row.preset).stem
        name = f"{preset}-seed-{self.seed}-{self.key[:8]}"
        return self.output / "cells" / name

    @property
    def base(self) -> str:
        """The untrained model that it begins with, or that its own backbone began with."""
        return str(self.settings["base"])

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

    def result(self) -> CellResult | None:
        """What came out; None if something is left to do, also if the model is needed and was not
        kept.
        """
        record = self.job.result()
        if record is None:
            return None
        result = CellResult.model_validate(record)
        return None if self.keep_model and not result.kept_model else result

    def finish(self, measured: Measurement, settings: Record, environment: Record) -> CellResult:
        """Write the result. From then on the cell is finished."""
        announced = [NUMBERS]
        if self.model.is_dir():
            announced.append(MODEL)
        result = CellResult(
            label=self.label,
            key=self.key,
            preset=Path(self.row.preset).stem,
            seed=self.seed,
            settings=dict(settings),
            environment=environment,
            kept_model=MODEL in announced,
            **dict(measured),
        )
        self.job.finish(result.as_json(), announced)
        return result

    def cosines(self) -> dict[str, tuple[Any, Any]]:
        """Task -> gold scores and cosines (N,), (N,) of all its pairs; {} if no pairs judged the
        cell.
        """
        return task_cosines(self.numbers / COSINES)

    def draws(self) -> Record:
        """Task -> Spearman on every resample of its pairs (R,); {} if no pairs judged the cell."""
        path = self.numbers / DRAWS
        return dict(np.load(path, allow_pickle=False)) if path.is_file() else {}

    def metrics(self) -> list[Record]:
        """The records that the run logged."""
        return RecordLog(self.numbers / METRICS, writing=False).records


def recorded_cells(results: Mapping[str, CellResult]) -> RecordedCells:
    """The finished cells without their scores, which the rows have."""
    recorded = RecordedCells(cells={}, settings={}, data=[], environments=[])
    for key, result in results.items():
        settings = without_paths(result.settings)
        checksum = xxhash.xxh3_64_hexdigest(json.dumps(settings, sort_keys=True).encode())
        recorded.settings[checksum] = settings
        recorded.cells[key] = CellSummary(
            preset=result.preset,
            seed=result.seed,
            seconds=result.seconds,
            settings=checksum,
            data=_index_in(recorded.data, result.data),
            environment=_index_in(recorded.environments, result.environment),
        )
    return recorded


def _index_in(values: list[Any], value: Any) -> int:
    """The place of a value in the list, which gets it if it is not there yet."""
    if value not in values:
        values.append(value)
    return values.index(value)


def without_paths(value: Any) -> Any:
    """A value without paths of this machine: of an absolute path only the last two names are
    kept.
    """
    if isinstance(value, Mapping):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return "/".join(Path(value).parts[1:][-2:])
    return value
