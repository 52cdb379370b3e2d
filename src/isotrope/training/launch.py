"""Several processes on one machine, started as torchrun starts them. An error is one line, from the first process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

import torch

from isotrope.console.threads import usable_cores
from isotrope.errors import Stopped, UserError
from isotrope.training.processes import process_count

LOOK = 0.1  # seconds between two looks at the processes
GRACE = 30.0  # seconds for the others to end after one has failed
LAUNCHED = "ISOTROPE_LAUNCHED"  # set for our processes: what ends all of them is told here, once


def launch(arguments: Sequence[str], processes: int) -> int:
    """Run ``python -m isotrope.cli ARGUMENTS`` in several processes -> exit code; the first process's if that failed.

    Each gets RANK, WORLD_SIZE and whatever else torch.distributed needs. With GPUs, each takes one.

    Raises:
        UserError: more processes than GPUs, or, without a GPU, more than two processes and cores.
        Stopped: one was killed; the others have been, too. Or the launcher was told to end.
    """
    gpus, cores = torch.cuda.device_count(), usable_cores()
    if processes > (most := gpus or max(2, cores)):  # each holds a model: too many fill the memory
        there = f"{gpus} GPUs" if gpus else f"{cores} cores"
        raise UserError(f"--processes {processes} on a machine with {there}", f"choose at most {most}")
    common = {
        "WORLD_SIZE": processes,
        "LOCAL_WORLD_SIZE": processes,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": _port(),
        LAUNCHED: 1,
    }
    common["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS") or max(1, cores // processes)
    common["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # its warnings are not for the user
    running = []
    for number in range(processes):
        own = {**common, "RANK": number, "LOCAL_RANK": number}
        environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
        # In a session of its own: a terminal's Ctrl-C reaches it once, from here.
        command = [sys.executable, "-m", "isotrope.cli", *arguments]
        running.append(subprocess.Popen(command, env=environment, start_new_session=True))

    told: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        told.append(number)
        for process in running:
            if process.poll() is None:
                process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code, killed = _wait(running)
        if code and signal.SIGTERM in told:
            raise Stopped("stopped by SIGTERM", 128 + signal.SIGTERM)
        if killed is not None and not told:
            by = signal.Signals(-running[killed].returncode)
            why = " (often for want of memory)" if by == signal.SIGKILL else ""
            raise Stopped(f"process {killed + 1} of {processes} was ended by {by.name}{why}", 128 + by)
        return code
    finally:
        for process in running:
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)


def already_launched(processes: int) -> bool:
    """Whether this process is one of the processes that --processes asked for.

    Raises:
        UserError: it is, but their number is another one.
    """
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        return False
    if process_count() != processes:
        problem = f"--processes {processes}, but WORLD_SIZE={process_count()}"
        raise UserError(problem, "leave --processes out where another launcher starts the processes")
    return True


def _wait(running: Sequence[subprocess.Popen[bytes]]) -> tuple[int, int | None]:
    """Wait until all have ended -> exit code, and which was the first if a signal ended it.

    When one fails, the others get a moment to end, then they are killed. When a signal ends one, they are killed at
    once: they could only wait for it.
    """
    failed, killed = None, None
    while True:
        codes = [process.poll() for process in running]
        if failed is None and any(codes):
            failed = time.monotonic()
            killed = next((number for number, code in enumerate(codes) if (code or 0) < 0), None)
        if None not in codes:
            return codes[0] or next((code for code in codes if code), 0), killed
        if codes[0] or killed is not None or (failed is not None and time.monotonic() - failed > GRACE):
            for process in running:
                process.kill()
        time.sleep(LOOK)


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
