"""What a race has measured, in files: scores, fitted steps, rankings. What is missing or damaged is measured again."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from isotrope.errors import UserError
from isotrope.improvement.budget import Size
from isotrope.improvement.candidates import Trial, slug
from isotrope.improvement.measure import Measured
from isotrope.improvement.steps import Basis, Fitted
from isotrope.improvement.teachers import Rankings
from isotrope.store.atomic import write_json
from isotrope.store.records import read_record

KINDS = ("scores", "hybrids", "crossed", "crossed_of")


@dataclass(frozen=True)
class Kept:
    """The files of a race in which everything is measured on so much.

    Attributes:
        folder: of the race.
        size: in the name of each file.
    """

    folder: Path
    size: Size

    def read(self, trial: Trial) -> Measured | None:
        """What is known of a trial, without what was fitted: see `step` and `rankings`."""
        found = {}
        with suppress(UserError):
            found = read_record(self._scores(trial), [*KINDS, "taught_by", "teachers"])
        if not found:
            return None
        scores, hybrids, crossed, of = (_arrays(found[kind]) for kind in KINDS)
        known = Measured(
            scores, hybrids, found["taught_by"], teachers=found["teachers"], crossed=crossed, crossed_of=of[""]
        )
        files = [self._step(name) for name, step in trial.candidates() if step and name in known.scores]
        files += [self._rankings(trial)] if known.taught_by and not trial.recipe else []
        return known if all(map(_whole, files)) else None

    def write(self, trial: Trial, found: Measured) -> None:
        """Keep what was measured. The scores come last: with them, a trial is whole."""
        for name, step in found.steps.items():
            step.save(self._step(name))
        if found.rankings and not trial.recipe:
            found.rankings.save(self._rankings(trial))
        told = {"taught_by": found.taught_by, "teachers": found.teachers}
        arrays = found.scores, found.hybrids, found.crossed, {"": found.crossed_of}
        lists = dict(zip(KINDS, map(_lists, arrays), strict=True)) | told
        self._scores(trial).parent.mkdir(parents=True, exist_ok=True)
        write_json(self._scores(trial), lists)

    def step(self, candidate: str) -> Fitted:
        """The fitted post step of a candidate that has one."""
        return Fitted.load(self._step(candidate))

    def rankings(self, trial: Trial, basis: Basis) -> Rankings | None:
        """What teachers say to the model that a trial begins with; None: there is no teacher."""
        file = self._rankings(trial)
        return Rankings.load(file, basis.asked.texts) if file.is_file() else None

    def _scores(self, trial: Trial) -> Path:
        return self._file("scores", trial.name, ".json")

    def _step(self, candidate: str) -> Path:
        return self._file("steps", candidate, ".safetensors")

    def _rankings(self, trial: Trial) -> Path:
        return self._file("rankings", f"of {trial.start}, pooling {trial.pooling}", ".safetensors")

    def _file(self, kind: str, name: str, suffix: str) -> Path:
        return self.folder / kind / f"{slug(name)}-{self.size.queries}-{self.size.fitted_on}{suffix}"


def _whole(file: Path) -> bool:
    """Whether a .safetensors file is there and holds as many bytes as it says."""
    with suppress(OSError, SafetensorError), safe_open(file, "numpy"):
        return True
    return False


def _arrays(found: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    return {name: {task: np.array(cases) for task, cases in of.items()} for name, of in found.items()}


def _lists(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    return {name: {task: cases.tolist() for task, cases in of.items()} for name, of in found.items()}
