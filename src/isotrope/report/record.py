"""What a run's folder says, finished or not."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.objective.preset import Preset, preset_names, read_preset
from isotrope.objective.sources import cited_sources, flat
from isotrope.types import Vector

Curve = tuple[list[int], list[float]]  # steps, values
TIMES = ("before", "after")
NOT_TERMS = {"step", "loss", "grad_norm", "learning_rate"}  # what the trainer logs beside the loss terms


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's files, read. ``result`` is empty while the run is unfinished; what was not kept is empty too."""

    folder: Path
    preset: Preset
    identity: Mapping[str, Any]  # run.json
    environment: Mapping[str, Any]
    result: Mapping[str, Any]
    metrics: list[dict[str, Any]]
    gold: Mapping[str, Vector]  # task -> (N,), its parts joined
    cosines: Mapping[str, Mapping[str, Vector]]  # before, after -> task -> (N,)
    sample: list[str]

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Read a run's folder.

        Raises:
            UserError: the folder holds no run, or one of its files is damaged.
        """
        if not (folder / "run.json").is_file():
            raise UserError(f"{folder} holds no run", "name the folder that isotrope train wrote (its --output)")
        if not (folder / "preset.toml").is_file():
            raise UserError(f"{folder} holds a run that has not begun", "go on with it: isotrope train … --resume")
        kept = {time: _arrays(folder / f"{time}.npz") for time in TIMES}
        sample = folder / "sample.txt"
        return cls(
            folder=folder,
            preset=read_preset(folder / "preset.toml"),
            identity=_object(folder / "run.json"),
            environment=_object(folder / "environment.json"),
            result=_object(folder / "result.json"),
            metrics=_lines(folder / "metrics.jsonl"),
            gold=_joined(kept["before"], gold=True),
            cosines={time: _joined(arrays, gold=False) for time, arrays in kept.items() if arrays},
            sample=sample.read_text(encoding="utf-8").splitlines() if sample.is_file() else [],
        )

    @property
    def method(self) -> str:
        """The preset's name: as the result has it, else that of the shipped preset with the same description."""
        found = (name for name in preset_names() if read_preset(name).description == self.preset.description)
        return str(self.result.get("preset") or next(found, "a preset of its own"))

    @property
    def kept_step(self) -> int | None:
        """The step whose weights the finished run kept, where dev pairs selected it."""
        step = self.result.get("selection", {}).get("best_step")
        return None if step is None else int(step)

    def series(self, *keys: str) -> list[Curve]:
        """The values of ``keys`` over the steps whose record has them all."""
        rows = [record for record in self.metrics if all(key in record for key in keys)]
        return [([row["step"] for row in rows], [float(row[key]) for row in rows]) for key in keys]

    def losses(self) -> dict[str, Curve]:
        """Loss and its terms over the steps; the loss alone, under the term's name, where there is one term."""
        terms = list(dict.fromkeys(k for r in self.metrics if "loss" in r for k in r if k not in NOT_TERMS))
        if len(terms) < 2:
            named = {terms[0] if terms else "loss": self.series("loss")[0]}
        else:
            named = {"loss": self.series("loss")[0], **{term: self.series("loss", term)[1] for term in terms}}
        return {name: curve for name, curve in named.items() if curve[0]}

    def dev_scores(self) -> dict[str, Curve]:
        """Dev score over the steps as Spearman × 100: the mean that selects, and each set where there are several."""
        skip = NOT_TERMS | {"score", "alignment", "uniformity"}
        sets = list(dict.fromkeys(k for r in self.metrics if "score" in r for k in r if k not in skip))
        chosen = {"mean": "score", **{name: name for name in sets}} if len(sets) > 1 else {"score": "score"}
        curves = {name: self.series("score", key)[1] for name, key in chosen.items()}
        return {name: (steps, [100 * v for v in values]) for name, (steps, values) in curves.items() if steps}

    def settings(self) -> list[tuple[str, str, str]]:
        """Rows (key, value, source): the paper's section, our default, or this run's own choice."""
        shipped = self.method if self.method in preset_names() else None
        usual = flat(read_preset(shipped)) if shipped else {}
        cited = cited_sources(shipped) if shipped else {}
        return [
            (key, "" if value == {} else json.dumps(value, ensure_ascii=False),
             (cited.get(key) or "isotrope's default") if key in usual and usual[key] == value else "set for this run")
            for key, value in flat(self.preset).items()
            if value != {} or "." in key
        ]  # fmt: skip


def _object(path: Path) -> dict[str, Any]:
    """A JSON object, or {} where the file is not there yet."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _damaged(path)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    """The log's records; a kill may have cut the last line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    try:
        return [json.loads(line) for line in lines if line.endswith("}")]
    except ValueError:
        raise _damaged(path) from None


def _arrays(path: Path) -> dict[str, Vector]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise _damaged(path) from None


def _joined(arrays: Mapping[str, Vector], gold: bool) -> dict[str, Vector]:
    """Task -> its parts in the file's order, joined: gold scores (keys task/part/gold) or cosines (task/part)."""
    tasks: dict[str, list[Vector]] = {}
    for key, values in arrays.items():
        task, _, *mark = key.split("/")
        if bool(mark) == gold:
            tasks.setdefault(task, []).append(values)
    return {task: np.concatenate(parts) for task, parts in tasks.items()}


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged", "put it right, or take it away and have the report without it")
