"""The progress bar: how much is done, out of how much, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY = 30.0  # seconds between two lines where there is no terminal


class Bar:
    """What `progress` gives: call `advance` or `update` as work is done."""

    def __init__(self, what: str, total: int | None, console: Console, unit: str) -> None:
        self.what, self.total, self.console, self.unit = what, total, console, unit
        self.done, self.note = 0, ""
        self._first: tuple[float, int] | None = None  # time and count when this process began
        self._said = time.monotonic()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self.drawn = Progress(*columns, console=console, transient=True, disable=not console.is_interactive)
        self._task = self.drawn.add_task(what, total=total, count="", note="")

    def advance(self, count: int = 1) -> None:
        """``count`` more are done."""
        self.update(self.done + count)

    def update(self, done: int | None = None, *, total: int | None = None, note: str | None = None) -> None:
        """Set what has changed: how many are done, how many there are, a few words such as the present loss.

        The first call says what was done before this process, so that the time left is right after a resume.
        """
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        now = time.monotonic()
        self._first = self._first or (now, self.done)
        if self.console.is_interactive:
            self.drawn.update(self._task, completed=self.done, total=self.total, count=self._count("/"), note=self.note)
        elif now - self._said >= EVERY:
            self._said = now
            parts = (f"{self.what} {self._count(' of ')}", self._left(now), self.note)
            self.console.print(", ".join(filter(None, parts)))

    def _count(self, between: str) -> str:
        if self.unit == "bytes":
            numbers, unit = [f"{n / 1e6:,.1f}" for n in (self.done, self.total) if n is not None], "MB"
        else:
            numbers, unit = [f"{n:,}" for n in (self.done, self.total) if n is not None], self.unit
        return f"{between.join(numbers)} {unit}"

    def _left(self, now: float) -> str:
        began, first = self._first or (now, self.done)
        if self.total is None or self.done <= first:
            return ""
        return f"{duration((self.total - self.done) * (now - began) / (self.done - first))} left"


@contextmanager
def progress(what: str, total: int | None, console: Console, unit: str = "rows") -> Iterator[Bar]:
    """Show the progress of long work.

    In a terminal this is a bar with percent, count, time so far and time left. It disappears at the end. Elsewhere it
    is a line at most every 30 seconds: ``encoded 12,000 of 50,000 rows, 3 min left``. A quiet console shows nothing.

    >>> with progress("encoded", 50_000, plain_console(stderr=True)) as bar:
    ...     bar.advance(64)

    Args:
        what: what happens to the units, as a participle: ``encoded``, ``trained``, ``downloaded``.
        total: how many there are; None if that is not known yet (`Bar.update` can set it later).
        console: from `isotrope.console.plain.plain_console`.
        unit: what is counted; ``bytes`` are shown in MB.
    """
    bar = Bar(what, total, console, unit)
    with bar.drawn:
        yield bar


def duration(seconds: float) -> str:
    """A time as a person says it: ``40 s``, ``3 min``, ``2 h 05 min``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
