"""The time of a race."""

import time
from collections.abc import Callable
from math import inf

from isotrope.errors import UserError

MINUTES = 20.0  # if nobody says how many


def check_minutes(minutes: float, problem: str = "") -> None:
    """Check that ``minutes`` is positive, and that there is no problem with having a limit."""
    if not problem and 0 < minutes < 1e5:
        return
    remedy = "leave it out" if problem else "choose a number above 0"
    raise UserError(f"minutes = {minutes} is not possible{problem}", remedy, "impossible-minutes")


class Clock:
    """Seconds that a race has and has used, those of an earlier call too.

    Args:
        limit: seconds for all of it; infinite if a plan is repeated.
        spent: seconds that earlier calls have used.
    """

    now: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, limit: float = inf, spent: float = 0.0) -> None:
        self.limit = limit
        self._began = self.now() - spent

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self.now() - self._began

    @property
    def left(self) -> float:
        """Seconds until the limit; negative after it."""
        return self.limit - self.spent

    def __str__(self) -> str:
        """The minutes that are left, for a line of progress; "" without a limit."""
        if self.limit == inf:
            return ""
        return f", {max(0.0, self.left) / 60:.0f} min left"
