"""The time that a race has."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Counts the seconds of a race, those of an earlier call too.

    Args:
        seconds: the whole time.
        spent: what an earlier call, stopped or killed, has used.
        now: the present time in seconds.

    Attributes:
        kept_back: seconds for what comes after the race: the choice, the model, the report.
        rang: whether the time of the race is over.
    """

    def __init__(self, seconds: float, spent: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._now, self._began = seconds, now, now() - spent
        self.kept_back, self.rang = 0.0, False

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._now() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left for the race; negative: over."""
        return self.seconds - self.kept_back - self.spent

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Interrupt the work within, as Ctrl-C does, when the time is over; `rang` then says that it was the clock.

        Only in the main thread: elsewhere Python hears no signals.

        Raises:
            KeyboardInterrupt: the time is over.
        """
        if self.left <= 0:
            self.rang = True
            raise KeyboardInterrupt
        timer = threading.Timer(self.left, self._ring)
        timer.daemon = True
        main, before = threading.current_thread() is threading.main_thread(), signal.getsignal(signal.SIGINT)
        if main and before is signal.SIG_IGN:  # a job in the background of a script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if main:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if timer.is_alive():  # it may be ringing: then the signal has to arrive here, not later
                timer.join()
            if main and before is signal.SIG_IGN:
                signal.signal(signal.SIGINT, before)

    def _ring(self) -> None:
        self.rang = True
        os.kill(os.getpid(), signal.SIGINT)
