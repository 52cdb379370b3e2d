"""How many threads of the processor the command line uses, and how they wait for each other.

torch starts a thread for each core, and a thread that waits for the others keeps its core busy. If other programs use
the cores too, most of the time goes into this waiting. A training step then took 3.5 times as long as with one thread
(`benchmarks/threads.py`). Threads that sleep while they wait cost nothing, and they change no result.
"""

import os

NUMBER, WAITING = "OMP_NUM_THREADS", "OMP_WAIT_POLICY"


def let_threads_sleep() -> None:
    """Threads that wait shall sleep, unless the user said otherwise. Call it before torch is imported."""
    os.environ.setdefault(WAITING, "PASSIVE")


def usable_cores() -> int:
    """Cores that this process may use: of its affinity, within the quota of its container."""
    from joblib import cpu_count

    return int(cpu_count())


def limit_threads() -> None:
    """Use no more threads than `usable_cores`, unless the user set OMP_NUM_THREADS: torch knows of no quota."""
    import torch

    if NUMBER not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))


def threads_line() -> str:
    """How many threads are used, and why, for the user."""
    import torch

    count = torch.get_num_threads()
    threads = "1 thread" if count == 1 else f"{count} threads"
    if NUMBER in os.environ:
        return f"{threads} of the processor, as {NUMBER} says"
    return f"{threads} of the processor, for {usable_cores()} usable cores ({NUMBER} sets another number)"
