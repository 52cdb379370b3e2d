"""What a race has measured, in a file for each trial. What is missing or damaged is measured again."""

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from isotrope.evaluation.retrieval import Lists
from isotrope.improvement.budget import Size
from isotrope.improvement.candidates import Trial, slug
from isotrope.improvement.measure import Measured
from isotrope.improvement.steps import Basis, Fitted
from isotrope.improvement.teachers import Rankings
from isotrope.store.atomic import new_file

TOLD = "told"  # the array that holds JSON; the others are named by kind, candidate, and task or part


@dataclass(frozen=True)
class Kept:
    """The files of a race in which everything is measured on so much, in NumPy's .npz format."""

    folder: Path
    size: Size  # in the name of each file

    def read(self, trial: Trial) -> Measured | None:
        """What is known of a trial, without what was fitted, which is large: see `step` and `rankings`."""
        with suppress(OSError, EOFError, ValueError, BadZipFile), np.load(self._file(trial)) as file:
            scores, hybrids, crossed, of = (_parts(file, kind) for kind in ("scores", "hybrids", "crossed", "of"))
            return Measured(scores, hybrids, crossed=crossed, crossed_of=of[""], **json.loads(str(file[TOLD])))
        return None

    def write(self, trial: Trial, found: Measured) -> None:
        """Keep what was measured. What a trained model would teach is left out."""
        rankings: dict[str, Any] = {}
        if (taught := found.rankings) and not trial.recipe:
            parts = {"places": taught.lists.documents, "scores": taught.lists.scores}
            rankings[""] = {"rows": taught.rows, "documents": taught.documents, **parts}
        kinds: dict[str, Mapping[str, Mapping[str, Any]]] = {
            "scores": found.scores, "hybrids": found.hybrids, "crossed": found.crossed, "of": {"": found.crossed_of},
            "steps": {name: vars(step) for name, step in found.steps.items()}, "rankings": rankings,
        }  # fmt: skip
        arrays: dict[str, Any] = {TOLD: json.dumps({"taught_by": found.taught_by, "teachers": found.teachers})}
        for kind, named in kinds.items():
            for name, parts in named.items():
                arrays |= {json.dumps([kind, name, part]): array for part, array in parts.items()}
        self._file(trial).parent.mkdir(parents=True, exist_ok=True)
        with new_file(self._file(trial)) as file:
            np.savez(file, **arrays)

    def step(self, trial: Trial, candidate: str) -> Fitted:
        """The fitted post step of one of a trial's candidates."""
        with np.load(self._file(trial)) as file:
            return Fitted(**_parts(file, "steps")[candidate])

    def rankings(self, trial: Trial, basis: Basis) -> Rankings | None:
        """What teachers say to the model that a trial begins with; None: there is no teacher."""
        with np.load(self._file(replace(trial, recipe=""))) as file:
            of = _parts(file, "rankings").get("")
        if not of:
            return None
        queries, lists = [basis.asked.texts[row] for row in of["rows"]], Lists(of["places"], of["scores"])
        return Rankings(queries, of["rows"], np.empty((0, 0)), of["documents"], lists)  # their vectors are not kept

    def _file(self, trial: Trial) -> Path:
        name = trial.name if trial.recipe else f"of {trial.start}, pooling {trial.pooling}"
        return self.folder / "measured" / f"{slug(name)}-{self.size.queries}-{self.size.fitted_on}.npz"


def _parts(file: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Candidate -> task or part -> array, of one kind."""
    found = defaultdict[str, dict[str, Any]](dict)
    for key in file:
        if key != TOLD and (place := json.loads(key))[0] == kind:
            found[place[1]][place[2]] = file[key]
    return found
