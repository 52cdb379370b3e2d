"""The end of one of several processes."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

from isotrope.errors import Stopped

STORE = 3.0  # seconds in which the store of the processes answers


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
    atexit._run_exitfuncs()  # trackers send what they still hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def hear_launcher() -> None:
    """From now on SIGTERM, which torchrun sends to the others when one process has ended, is one clear exception."""
    signal.signal(signal.SIGTERM, _told_to_end)


def _told_to_end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped("another process of this run has ended, or its launcher was stopped", code=128 + number)


def has_the_word() -> bool:
    """Whether this process tells why all end: of several the first that asks; none where isotrope's launcher tells."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    from isotrope.training.launch import LAUNCHED

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if LAUNCHED in os.environ:
        return False
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        socket.create_connection((host, port), timeout=STORE).close()
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=STORE))
        return bool(store.add(f"isotrope/told/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", 1) == 1)
    except (OSError, RuntimeError):  # the first process kept the store, and has ended
        return os.environ["RANK"] == "1"
