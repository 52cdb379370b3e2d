"""How far a study is: a live table in a terminal, a line for each finished cell elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.table import Table

from isotrope.store.records import read_record
from isotrope.study.plan import Cell, StudyPlan


class Board:
    """Row, seeds done, mean so far; and the time that is left. Something rich can render."""

    def __init__(self, plan: StudyPlan, jobs: int, console: Console) -> None:
        self.plan, self.jobs, self.console = plan, jobs, console
        self.results: dict[str, Mapping[str, Any]] = {}
        self.begun: dict[str, float] = {}
        self.seconds: list[float] = []  # of the cells that this call has run
        self.lost: set[str] = set()
        for cell in plan.cells.values():
            if cell.finished:
                self.results[cell.key] = read_record(cell.result)

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        return None

    def started(self, cell: Cell) -> None:
        """A cell begins."""
        self.begun[cell.key] = time.monotonic()

    def finished(self, cell: Cell) -> None:
        """A cell has its result."""
        self.seconds.append(time.monotonic() - self.begun.pop(cell.key))
        self.results[cell.key] = read_record(cell.result)
        scores = self.results[cell.key]["scores"]
        column = next((name for name in ("Avg.", "dev") if name in scores), None)
        said = f": {column} {scores[column]:.2f}" if column else ""
        self._say(f"{cell.label}, seed {cell.seed}{said} ({self.seconds[-1]:.0f} s); {self._left()}")

    def failed(self, cell: Cell, why: str) -> None:
        """A cell has none."""
        self.begun.pop(cell.key, None)
        self.lost.add(cell.key)
        self._say(f"{cell.label}, seed {cell.seed} failed: {why}")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _left(self) -> str:
        """The time left, from the mean time of the cells so far; running ones count for what they still need."""
        missing = [key for key in self.plan.cells if key not in self.results and key not in self.lost]
        if not missing:
            return "nothing is left"
        if not self.seconds:
            return f"{len(missing)} of {len(self.plan.cells)} cells left"
        mean, now = sum(self.seconds) / len(self.seconds), time.monotonic()
        needed = sum(max(0.0, mean - (now - self.begun[key])) if key in self.begun else mean for key in missing)
        return f"{len(missing)} of {len(self.plan.cells)} cells left, {timedelta(seconds=round(needed / self.jobs))}"

    def __rich__(self) -> Table:
        table = Table("row", "seeds done", "running", "mean so far", title=self.plan.spec.title, caption=self._left())
        teachers = {f"teacher {name}": {0: key} for name, key in self.plan.models.items()}
        for label, keys in {**teachers, **self.plan.rows}.items():
            done = [self.results[key]["scores"] for key in keys.values() if key in self.results]
            values = [scores.get("Avg.", scores.get("dev")) for scores in done]
            known = [value for value in values if value is not None]
            mean = f"{sum(known) / len(known):.2f}" if known else "—"
            failed = sum(key in self.lost for key in keys.values())
            count = f"{len(done)} of {len(keys)}" + (f", {failed} failed" if failed else "")
            table.add_row(label, count, str(sum(key in self.begun for key in keys.values()) or ""), mean)
        return table
