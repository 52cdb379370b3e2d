"""``metrics.jsonl``: everything that a run logs, one record a line. A resumed run reads its past from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isotrope.store.records import Record, RecordLog


class MetricsLog:
    """An append-only file of records with a ``step``. Only the main process writes.

    Args:
        path: the file. What a killed run wrote there after its last checkpoint is dropped.
        begun: the records up to the step at which the run resumes.
        writing: whether this process writes.
    """

    def __init__(self, path: Path, begun: Sequence[Record] = (), writing: bool = True) -> None:
        self.writing = writing
        self._log = RecordLog(path, writing)
        self._log.records = list(begun)
        self._log.keep(len(begun))

    @property
    def records(self) -> list[Record]:
        """All records so far, oldest first."""
        return self._log.records

    def add(self, step: int, **values: Any) -> None:
        """Append one record."""
        self._log.add({"step": step, **values})

    def evaluations(self) -> list[Record]:
        """The records of evaluations, oldest first."""
        return [record for record in self.records if "score" in record]
