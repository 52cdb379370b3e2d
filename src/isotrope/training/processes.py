"""The processes of a run. A launcher numbers them in RANK and WORLD_SIZE."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as distributed

from isotrope.errors import Stopped, UserError

NEEDED = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # of each of several processes
REMEDY = "unset RANK and WORLD_SIZE, or start with isotrope train --processes N"


def process_number() -> int:
    """This process's number; 0 is the only one that writes and prints.

    Raises:
        UserError: RANK and WORLD_SIZE do not fit together.
    """
    rank, count = os.environ.get("RANK", "0"), process_count()
    if not rank.isdecimal() or int(rank) >= count:
        what = f"RANK={rank} is not the number of one of {count} process{'es' if count > 1 else ''}"
        raise UserError(what, REMEDY)
    return int(rank)


def process_count() -> int:
    """How many processes were started.

    Raises:
        UserError: WORLD_SIZE is not a whole number from 1, or a launcher's other variables are missing.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    if not count.isdecimal() or int(count) < 1:
        raise UserError(f"WORLD_SIZE={count} is not a number of processes", REMEDY)
    if int(count) > 1 and (missing := [name for name in NEEDED if name not in os.environ]):
        raise UserError(f"WORLD_SIZE={count}, but {missing[0]} is not set", REMEDY)
    return int(count)


def refuse_several(command: str) -> None:
    """Refuse to run in several processes: each would do the whole work, and all would write to the same place.

    Raises:
        UserError: a launcher has started several.
    """
    if (count := process_count()) > 1:
        raise UserError(f"{command} needs one process, not {count}", "start it without a launcher such as torchrun")


@contextmanager
def with_others() -> Iterator[None]:
    """Computing with other processes: where one of them is lost, so is the work since the last checkpoint.

    Raises:
        Stopped: another process has ended, or its machine does not answer.
    """
    try:
        yield
    except RuntimeError as error:
        # gloo has no class of its own for it
        if process_count() == 1 or not (isinstance(error, distributed.DistError) or "gloo" in str(error)):
            raise
        raise Stopped("another process of this run has ended", code=1) from error


def leave(*, failed: bool) -> None:
    """Leave the other processes. Without this, gloo's threads may abort Python at its end (pytorch issue 190489).

    After a failure NCCL would wait for processes that wait for this one: the launcher ends those.
    """
    if not distributed.is_initialized() or (failed and distributed.get_backend() == "nccl"):
        return
    distributed.destroy_process_group()
