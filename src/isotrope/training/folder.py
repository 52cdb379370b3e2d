"""The folder of a training run: its files, the one reader and the one writer of each, and what a page needs of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isotrope.errors import UserError, printable
from isotrope.evaluation.sts import Cosines, Sets
from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.preset.sources import sourced
from isotrope.store.atomic import new_file, write_json, write_text
from isotrope.store.job import IDENTITY, RESULT, Job
from isotrope.store.records import Record, RecordLog, read_record
from isotrope.training.processes import environment
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
        """Everything that decides the result."""
        if not self.begun:
            raise UserError(f"{self.path} holds no run", "name the folder that isotrope train wrote (its --output)")
        return read_record(self.path / IDENTITY, remedy="choose another --output")

    def preset(self) -> Preset:
        """The resolved preset."""
        return read_preset(self.path / "preset.toml")

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
        """Task -> part -> gold scores and cosines of the judging pairs; {} if they were not kept."""
        return read_cosines(self.path / f"{time}.npz")

    def write_cosines(self, time: Time, sets: Sets, cosines: Cosines) -> None:
        """Keep the cosines, so that a resumed run does not encode again."""
        write_cosines(self.path / f"{time}.npz", sets, cosines)

    def result(self) -> Record:
        """Scores and verdict; {} while the run is unfinished."""
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
    """What `write_cosines` wrote; {} if there is no such file."""
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
    def read(cls, folder: Path) -> "RunRecord":
        """Read a run's folder."""
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
