"""The progress bar: how much is done, out of how much, and how long the rest will take."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from isotrope.console.plain import escaped

# Seconds before the first line and between two lines, where there is no terminal.
FIRST_LINE = 5.0
BETWEEN_LINES = 30.0


class Bar:
    """What `progress` gives: call `advance` or `update` as work is done."""

    def __init__(self, what: str, total: int | None, console: Console, unit: str) -> None:
        self.what = what
        self.total = total
        self.console = console
        self.unit = unit
        self.done = 0
        self.note = ""
        self.has_own_count = bool(unit)
        self.inner_work = ""  # how far the work within is, beside this bar's own count
        self._start: _Start | None = None
        self._next_line = time.monotonic() + FIRST_LINE
        self.drawn = _drawn_bar(console)
        self._task = self.drawn.add_task(what, total=total)

    def advance(self, count: int = 1) -> None:
        """``count`` more are done."""
        self.update(self.done + count)

    def update(
        self, done: int | None = None, *, total: int | None = None, note: str | None = None
    ) -> None:
        """Set what has changed.

        The first call says what was done before this process, so that the time left is right.
        """
        if done is not None:
            self.done = done
        if total is not None:
            self.total = total
        if note is not None:
            self.note = note

        if self.console.quiet:
            tell(self.what, self.done, self.total, self.unit)
            return
        now = time.monotonic()
        if self._start is None:
            self._start = _Start(now, self.done)
        if self.console.is_interactive:
            line = escaped(self._line(now, "/"))
            self.drawn.update(self._task, completed=self.done, total=self.total, description=line)
        elif now >= self._next_line:
            self._next_line = now + BETWEEN_LINES
            self.console.print(self._line(now, " of "))

    def hear(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Show what `tell` was told.

        It is a note beside this bar's own count, or all that a bar without a count shows.
        """
        if self.has_own_count:
            self.inner_work = ""
            if done != total:
                self.inner_work = _work(what, done, total, unit, " of ")
            self.update()
            return

        is_same_work = (what, total) == (self.what, self.total)
        if not is_same_work or done < self.done:
            self.what = what
            self.total = total
            self.unit = unit
            self._start = None
            self.drawn.reset(self._task, total=total)
        self.update(done)

    def _line(self, now: float, between: str) -> str:
        """``encoded 12,000 of 50,000 rows, 3 min left``."""
        work = _work(self.what, self.done, self.total, self.unit, between)
        phrases = [work, self._time_left(now), self.note, self.inner_work]
        return ", ".join(filter(None, phrases))

    def _time_left(self, now: float) -> str:
        if self._start is None or self.total is None or self.done <= self._start.done:
            return ""
        done_since = self.done - self._start.done
        seconds_each = (now - self._start.time) / done_since
        seconds_left = (self.total - self.done) * seconds_each
        return f"{duration(seconds_left)} left"


class _Start(NamedTuple):
    """When this process began a work, and what was done before."""

    time: float
    done: int


def _drawn_bar(console: Console) -> Progress:
    """Rich's bar, which disappears at the end. A narrow terminal cuts only its words."""
    words = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        BarColumn(12),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False, table_column=words),
        console=console,
        transient=True,
        expand=True,
        disable=not console.is_interactive,
    )


def _work(what: str, done: int, total: int | None, unit: str, between: str) -> str:
    """``encoded 12,000 of 50,000 rows``, or only the first word if nothing is counted."""
    if not done and total is None:
        return what
    numbers = [done] if total is None else [done, total]
    if unit == "bytes":
        return f"{what} {between.join(map(decimal, numbers))}"
    count = between.join(map("{:,}".format, numbers))
    return f"{what} {count} {unit}".strip()


_hearing: ContextVar[Bar | None] = ContextVar("hearing", default=None)


def tell(what: str, done: int = 0, total: int | None = None, unit: str = "texts") -> None:
    """Say how far a work is: ``tell("encoded", 64, 3_000)``.

    A bar of the caller's shows it, if there is one (`watch`).
    """
    bar = _hearing.get()
    if bar is not None:
        bar.hear(what, done, total, unit)


@contextmanager
def progress(
    what: str, total: int | None, console: Console, unit: str = "rows", note: str = ""
) -> Iterator[Bar]:
    """Show the progress of long work: in a terminal a bar, which disappears at the end.

    Elsewhere it is a line after 5 seconds, then one at most every 30: ``encoded 12,000 of 50,000
    rows, 3 min left``. A quiet console tells the bar around it instead. What the work within tells
    by `tell` is a note.

    Args:
        what: happens to the units, as a participle: ``encoded``, ``trained``, ``downloaded``.
        total: None if that is not known yet (`Bar.update` can set it later).
        console: from `isotrope.console.plain.plain_console`.
        unit: is counted; ``bytes`` are shown in kB, MB or GB.
        note: stands behind it.
    """
    bar = Bar(what, total, console, unit)
    outer = _hearing.get()
    before = _hearing.set(outer if console.quiet else bar)  # a quiet bar hides no other
    try:
        with bar.drawn:
            if note or not unit:
                bar.update(note=note)
            yield bar
    finally:
        _hearing.reset(before)


def watch(what: str, console: Console, note: str = "") -> AbstractContextManager[Bar]:
    """Show what the work within tells by `tell`, one after the other; before that, ``what``."""
    return progress(what, None, console, "", note)


def duration(seconds: float) -> str:
    """A time as a person says it: ``40 s``, ``3 min``, ``2 h 05 min``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02d} min"
