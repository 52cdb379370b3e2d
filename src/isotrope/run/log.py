"""``metrics.jsonl``: every number of a run, one record a line, and what a resumed run knows of its past."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class MetricsLog:
    """An append-only file of records with a ``step``. A killed run's records after its checkpoint are forgotten."""

    def __init__(self, path: Path, upto: int = 0, writing: bool = True) -> None:
        """Open the log, keeping the records up to the step at which the run goes on. Only the main process writes."""
        self.path, self.writing = path, writing
        self.records: list[Entry] = []
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            records = [json.loads(line) for line in lines if line.endswith("}")]  # a kill may have cut the last line
            self.records = [record for record in records if record["step"] <= upto]
        if writing:
            draft = path.with_suffix(".part")
            draft.write_text("".join(json.dumps(record) + "\n" for record in self.records), encoding="utf-8")
            draft.replace(path)

    def add(self, step: int, **values: Any) -> None:
        """Append one record."""
        record = {"step": step, **values}
        self.records.append(record)
        if self.writing:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def evaluations(self) -> list[Entry]:
        """The records of evaluations, oldest first."""
        return [record for record in self.records if "score" in record]
