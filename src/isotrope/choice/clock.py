"""The time that a race has."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Counts the seconds of a race, those of an earlier call too.

    Args:
        seconds: the whole time.
        spent: what an earlier call, stopped or killed, has used.
    """

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self.seconds, self._began, self.rang = seconds, time.monotonic() - spent, False

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left; negative: over."""
        return self.seconds - self.spent

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Interrupt the work within, as Ctrl-C does, when the time is over; `rang` then says that it was the clock.

        Only in the main thread: elsewhere Python hears no signals.
        """
        timer = threading.Timer(max(0.0, self.left), self._ring)
        timer.daemon = True
        if threading.current_thread() is threading.main_thread():
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _ring(self) -> None:
        self.rang = True
        os.kill(os.getpid(), signal.SIGINT)
