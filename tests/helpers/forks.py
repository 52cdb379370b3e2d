"""Work in another process, which may be killed; it need not import torch again, which takes five
seconds.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


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


def command(
    words: list[str], folder: Path, *, prepare: Callable[[], object] = int, encoding: str = "utf-8"
) -> int:
    """The number of a process that runs the command line; its output is in ``out`` and ``err`` of a
    folder.

    Args:
        words: what is typed.
        folder: for the two files.
        prepare: is called in the process before the command runs.
        encoding: of the terminal.
    """
    import isotrope.cli.main

    def work() -> None:
        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.stdout = open(1, "w", encoding=encoding, buffering=1)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1)  # noqa: SIM115
        sys.argv = ["isotrope", *words]
        prepare()
        try:
            isotrope.cli.main.main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(int(end.code or 0))

    return fork(work)
