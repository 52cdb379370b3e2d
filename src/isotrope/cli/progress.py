"""The one progress bar of commands whose end is not known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def counting(what: str, column: ProgressColumn, console: Console) -> Iterator[Callable[..., None]]:
    """A line in a terminal, gone at the end; what it yields takes ``completed`` or ``advance``."""
    columns = (TextColumn(what), column, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield partial(bar.update, bar.add_task("", total=None))
