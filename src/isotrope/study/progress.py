"""The progress of a study: a live table in a terminal; elsewhere a line for each finished cell."""

from __future__ import annotations

import time
from contextlib import ExitStack

from rich.console import Console
from rich.live import Live
from rich.table import Table as TerminalTable

from isotrope.console.progress import EVERY, FIRST, duration
from isotrope.report.tables import Table, terminal
from isotrope.store.records import Record
from isotrope.study.cell import Cell
from isotrope.study.plan import StudyPlan


class Board:
    """Shows each row's finished seeds and mean so far, and the time left.

    Attributes:
        results: key -> record of each finished cell.
        lost: key -> one line, for each cell that failed or could not begin.
    """

    def __init__(self, plan: StudyPlan, workers: int, console: Console) -> None:
        """Read the finished cells; report damaged records."""
        self.plan, self.workers, self.console = plan, workers, console
        self.results: dict[str, Record] = {}
        self.lost: dict[str, str] = {}
        self.begun: dict[str, float] = {}
        self.seconds: list[float] = []  # of the cells that this call has run
        self.due = time.monotonic() + FIRST  # when a line says what runs, where there is no terminal
        self.drawn = ExitStack()
        for cell in plan.cells.values():
            if record := cell.record():
                self.results[cell.key] = record
            elif cell.damaged:
                self.say(f"{cell.folder} is damaged: {_name(cell)} is run again")

    def __enter__(self) -> Board:
        if self.console.is_terminal:
            self.drawn.enter_context(Live(self, console=self.console, refresh_per_second=1, transient=True))
        return self

    def __exit__(self, *_: object) -> None:
        self.drawn.close()

    def started(self, cell: Cell) -> None:
        """A cell begins."""
        self.begun[cell.key] = time.monotonic()

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its result."""
        self.seconds.append(time.monotonic() - self.begun.pop(cell.key))
        self.results[cell.key] = record
        scores = record["scores"]
        column = next((name for name in ("Avg.", "dev") if name in scores), None)
        said = f": {column} {scores[column]:.2f}" if column else ""
        self.say(f"{_name(cell)}{said} ({duration(self.seconds[-1])}); {self._left()}")

    def failed(self, cell: Cell, why: str) -> None:
        """A cell has none."""
        self.begun.pop(cell.key, None)
        self.lost[cell.key] = why
        self.say(f"{_name(cell)} failed: {why}")

    def tick(self) -> None:
        """Time passes: where there is no terminal, say now and then what runs."""
        if self.begun and not self.console.is_terminal and time.monotonic() >= self.due:
            self.due = time.monotonic() + EVERY
            self.say(f"{self._running()}; {self._left()}")

    def _running(self) -> str:
        now = time.monotonic()
        cells = [f"{_name(self.plan.cells[key])} ({duration(now - began)})" for key, began in self.begun.items()]
        return f"running: {', '.join(cells) or 'nothing'}"

    def say(self, line: str) -> None:
        """Print a line as it is, on whatever console the caller gave."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _left(self) -> str:
        """The time left, from the mean time of finished cells. A running cell counts with the rest of that time."""
        missing = [key for key in self.plan.cells if key not in self.results and key not in self.lost]
        if not missing:
            return "nothing is left"
        count = f"{len(missing)} of {len(self.plan.cells)} cells left"
        if not self.seconds:
            return count
        mean, now = sum(self.seconds) / len(self.seconds), time.monotonic()
        needed = sum(max(0.0, mean - (now - self.begun[key])) if key in self.begun else mean for key in missing)
        return f"{count}, {duration(needed / self.workers)}"

    def __rich__(self) -> TerminalTable:
        teachers = {f"teacher {name}": {0: key} for name, key in self.plan.models.items()}
        rows = [self._row(label, list(keys.values())) for label, keys in {**teachers, **self.plan.rows}.items()]
        header = ["row", "seeds done", "running", "mean so far"]
        return terminal(Table(self.plan.spec.title, header, rows, notes=[self._running(), self._left()]))

    def _row(self, label: str, keys: list[str]) -> list[str]:
        done = [self.results[key]["scores"] for key in keys if key in self.results]
        values = [scores.get("Avg.", scores.get("dev")) for scores in done]
        known = [value for value in values if value is not None]
        failed = sum(key in self.lost for key in keys)
        count = f"{len(done)} of {len(keys)}" + (f", {failed} failed" if failed else "")
        running = sum(key in self.begun for key in keys)
        return [label, count, str(running or ""), f"{sum(known) / len(known):.2f}" if known else "—"]


def _name(cell: Cell) -> str:
    return f"{cell.label}, seed {cell.seed}"
