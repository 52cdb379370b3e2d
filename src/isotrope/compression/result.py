"""What a compression found, as ``result.json`` keeps it under "compression"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from isotrope.compression.cost import Costs
from isotrope.evaluation.significance import Comparison
from isotrope.report.switching import Switch
from isotrope.store.files import Record

# The kinds of tasks.
QUERIES = "labelled queries"
PARTS = "parts of texts"
PAIRS = "graded pairs"


@dataclass(frozen=True, slots=True)
class Distances:
    """How far the student, which is "after", is from two models on the same tasks."""

    teacher: Comparison
    start: Comparison  # the student before training


@dataclass(frozen=True, slots=True)
class TaskScores:
    """A task, on which the student was compared with both."""

    name: str
    to_teacher: Comparison
    to_start: Comparison


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """A student and its teacher, compared."""

    teacher: str  # its name
    student: str  # what was asked for, such as layers:3
    side: str  # what the student reads: both, or query
    quality: dict[str, Distances]  # by kind of task; the first one judges
    cost: Costs
    switch: Switch | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CompressionResult":
        """From what `record` gave."""
        return _READER.validate_python(record)

    def record(self) -> Record:
        """As JSON takes it."""
        return {**_READER.dump_python(self, mode="json"), "kept": self.kept}

    @property
    def queries_only(self) -> bool:
        """Whether the student reads queries only."""
        return self.side == "query"

    @property
    def kept(self) -> float:
        """The student's points over its teacher's, each the mean over all tasks."""
        tasks = list(self.tasks())
        teacher = float(np.mean([task.to_teacher.before for task in tasks]))
        student = float(np.mean([task.to_teacher.after for task in tasks]))
        return student / teacher if teacher > 0 else 0.0

    def tasks(self) -> Iterator[TaskScores]:
        """All tasks of all kinds."""
        for distances in self.quality.values():
            for name, to_teacher in distances.teacher.per_task.items():
                yield TaskScores(name, to_teacher, distances.start.per_task[name])


_READER = TypeAdapter(CompressionResult)
