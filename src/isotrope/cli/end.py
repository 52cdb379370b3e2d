"""The end of one of several processes."""

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from isotrope.errors import Stopped


@contextmanager
def end_at_once() -> Iterator[None]:
    """End the process behind the block, with the block's exit code, before Python takes its objects apart.

    There the main thread waits for a thread of gloo, which waits for the lock that the main thread holds:
    2 of 48 runs hung so on a busy machine (torch 2.13).
    """
    code: object = 0
    try:
        yield
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if "torch.distributed" in sys.modules:
        from isotrope.training.processes import leave

        leave(failed=bool(code))
    atexit._run_exitfuncs()  # trackers send what they still hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def hear_launcher() -> None:
    """From now on SIGTERM, which torchrun sends to the others when one process has ended, is one clear exception."""
    signal.signal(signal.SIGTERM, _told_to_end)


def _told_to_end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Stopped("another process of this run has ended, or its launcher was stopped", code=128 + number)
