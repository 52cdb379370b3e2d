"""Work in another process, which may be killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """The number of a process that does ``work``; it ends with 1 after an error."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def code(child: int, kill_after: float | None = None) -> int:
    """The exit code of a process, killed after so many seconds."""
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
