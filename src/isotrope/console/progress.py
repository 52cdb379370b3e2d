"""The progress bar: how much is done, out of how much, and how long the rest will take."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from isotrope.console.plain import escaped

# seconds before the first line and between the others, where there is no terminal
FIRST, EVERY = 5.0, 30.0


class Bar:
    """What `progress` gives: call `advance` or `update` as work is done."""

    def __init__(self, what: str, total: int | None, console: Console, unit: str) -> None:
        self.what, self.total, self.console, self.unit = what, total, console, unit
        self.done, self.note, self.told, self.counts = 0, "", "", bool(unit)
        self._first: tuple[float, int] | None = None  # time and count when this process began
        self._due = time.monotonic() + FIRST  # when the next line is printed
        # of a narrow terminal: only the words are cut
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        words = TextColumn("{task.description}", markup=False, table_column=rest)
        columns, hidden = (
            (BarColumn(12), TaskProgressColumn(), TimeElapsedColumn(), words),
            not console.is_interactive,
        )
        self.drawn = Progress(
            *columns, console=console, transient=True, expand=True, disable=hidden
        )
        self._task = self.drawn.add_task(what, total=total)

    def advance(self, count: int = 1) -> None:
        """``count`` more are done."""
        self.update(self.done + count)

    def update(
        self, done: int | None = None, *, total: int | None = None, note: str | None = None
    ) -> None:
        """Set what has changed. The first call says what was done before this process, so that the
        rest is right.
        """
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        if self.console.quiet:
            tell(self.what, self.done, self.total, self.unit)
            return
        now = time.monotonic()
        self._first = self._first or (now, self.done)
        between = "/" if self.console.is_interactive else " of "
        work = f"{self.what} {_count(self.done, self.total, self.unit, between)}".strip()
        line = ", ".join(filter(None, (work, self._left(now), self.note, self.told)))
        if self.console.is_interactive:
            self.drawn.update(
                self._task, completed=self.done, total=self.total, description=escaped(line)
            )
        elif now >= self._due:
            self._due = now + EVERY
            self.console.print(line)

    def hear(self, what: str, done: int, total: int | None, unit: str) -> None:
        """What `tell` was told: a note beside this bar's own count, or all that a bar without one
        shows.
        """
        if self.counts:
            self.told = (
                "" if done == total else f"{what} {_count(done, total, unit, ' of ')}".strip()
            )
            done = self.done
        elif (what, total) != (self.what, self.total) or done < self.done:  # another work
            self.what, self.total, self.unit, self._first = what, total, unit, None
            self.drawn.reset(self._task, total=total)
        self.update(done)

    def _left(self, now: float) -> str:
        began, first = self._first or (now, self.done)
        if self.total is None or self.done <= first:
            return ""
        return f"{duration((self.total - self.done) * (now - began) / (self.done - first))} left"


def _count(done: int, total: int | None, unit: str, between: str) -> str:
    if not done and total is None:
        return ""
    numbers = [number for number in (done, total) if number is not None]
    if unit == "bytes":
        return between.join(map(decimal, numbers))
    return f"{between.join(f'{number:,}' for number in numbers)} {unit}"


_hearing: ContextVar[Bar | None] = ContextVar("hearing", default=None)


def tell(what: str, done: int = 0, total: int | None = None, unit: str = "texts") -> None:
    """Say how far a work is, ``tell("encoded", 64, 3_000)``, to a bar of the caller's, if there is
    one (`watch`).
    """
    if bar := _hearing.get():
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
    before = _hearing.set(_hearing.get() if console.quiet else bar)  # a quiet bar hides no other
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
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
