"""How many threads of the processor the command line uses.

A thread of torch that waits keeps its core busy, which other programs then lack
(`benchmarks/speed/threads.py`). So the command line sets OMP_WAIT_POLICY, if the user does not:
threads that sleep while they wait change no result.
"""

import os

NUMBER = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """Cores that this process may use: of its affinity, within the quota of its container."""
    from joblib import cpu_count

    return int(cpu_count())


def limit_threads() -> None:
    """Use no more threads than `usable_cores`, unless the user set OMP_NUM_THREADS: torch knows of
    no quota.
    """
    import torch

    if NUMBER not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))


def threads_line() -> str:
    """How many threads are used, and why, for the user."""
    import torch

    count = torch.get_num_threads()
    why = f"as {NUMBER} says"
    if NUMBER not in os.environ:
        why = f"for {usable_cores()} usable cores ({NUMBER} sets another number)"
    return f"{count} thread{'s' * (count > 1)} of the processor, {why}"
