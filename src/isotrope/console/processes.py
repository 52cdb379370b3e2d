"""Which of several processes this one is, by what torchrun writes into the environment.

Batch systems set some of these variables too, such as RANK for the number of a job. Only a launcher
that starts processes which work together sets all of them.
"""

import os

LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def process_count() -> int:
    """How many processes a launcher has started; 1 without a launcher."""
    if not all(name in os.environ for name in LAUNCHER_VARIABLES):
        return 1
    return int(os.environ["WORLD_SIZE"])


def process_number() -> int:
    """This process's number. Number 0 is the only one that writes and prints."""
    return int(os.environ["RANK"]) if process_count() > 1 else 0
