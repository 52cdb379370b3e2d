"""What a run's page needs, read from the run's folder. The run may be unfinished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.sources import sourced
from isotrope.training.folder import RunFolder, Scored, Time
from isotrope.types import Vector

Curve = tuple[Sequence[int], Sequence[float]]  # steps, values
NOT_TERMS = {"step", "loss", "grad_norm", "learning_rate"}  # what the trainer logs beside the loss terms
TIMES: tuple[Time, ...] = ("before", "after")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The contents of a run's files. ``result`` is empty while the run is unfinished. What was not kept is empty."""

    folder: Path
    preset: Preset
    identity: Mapping[str, Any]  # job.json
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
        run = RunFolder(folder)
        identity, preset, result = run.identity(), run.preset(), run.result()
        kept = {time: _joined(run.cosines(time)) for time in TIMES}
        return cls(
            folder=folder,
            preset=preset,
            identity=identity,
            environment=run.environment(),
            result=result,
            metrics=[record for record in run.metrics() if isinstance(record.get("step"), int)],
            gold={task: gold for task, (gold, _) in kept["before"].items()},
            cosines={time: {task: found for task, (_, found) in of.items()} for time, of in kept.items() if of},
            sample=run.sample(),
        )

    @property
    def method(self) -> str:
        """The preset's name: from the result, else that of the shipped preset with the same description."""
        found = (name for name in preset_names() if read_preset(name).description == self.preset.description)
        return str(self.result.get("preset") or next(found, "a preset of its own"))

    @property
    def kept_step(self) -> int | None:
        """The step whose weights were kept, if dev pairs selected it."""
        step = self.result.get("selection", {}).get("best_step")
        return None if step is None else int(step)

    def series(self, *keys: str) -> list[Curve]:
        """The values of ``keys`` over the steps whose record has them all."""
        rows = [record for record in self.metrics if all(key in record for key in keys)]
        return [([row["step"] for row in rows], [float(row[key]) for row in rows]) for key in keys]

    def losses(self) -> dict[str, Curve]:
        """Loss and its terms over the steps. With one term only the loss, under the term's name."""
        terms = list(dict.fromkeys(k for r in self.metrics if "loss" in r for k in r if k not in NOT_TERMS))
        if len(terms) < 2:
            named = {terms[0] if terms else "loss": self.series("loss")[0]}
        else:
            named = {"loss": self.series("loss")[0], **{term: self.series("loss", term)[1] for term in terms}}
        return {name: curve for name, curve in named.items() if curve[0]}

    def dev_scores(self) -> dict[str, Curve]:
        """Dev score over the steps as Spearman × 100: the mean that selects, and with several sets also each set."""
        skip = NOT_TERMS | {"score", "alignment", "uniformity"}
        sets = list(dict.fromkeys(k for r in self.metrics if "score" in r for k in r if k not in skip))
        chosen = {"mean": "score", **{name: name for name in sets}} if len(sets) > 1 else {"score": "score"}
        curves = {name: self.series("score", key)[1] for name, key in chosen.items()}
        return {name: (steps, [100 * v for v in values]) for name, (steps, values) in curves.items() if steps}

    def settings(self) -> list[tuple[str, str, str]]:
        """Rows (key, value, source). The source is the paper's section, our default, or "set for this run"."""
        return sourced(self.preset, self.method)


def _joined(scored: Scored) -> dict[str, tuple[Vector, Vector]]:
    """Task -> gold scores and cosines (N,), (N,) of its parts, joined."""
    return {
        task: (np.concatenate([gold for gold, _ in parts.values()]), np.concatenate([c for _, c in parts.values()]))
        for task, parts in scored.items()
    }
