"""The processes of a run, as their launcher numbers them in RANK and WORLD_SIZE."""

from __future__ import annotations

import os

from isotrope.errors import UserError

REMEDY = "unset RANK and WORLD_SIZE, or start with isotrope train --processes N"


def process_number() -> int:
    """This process's number; 0 is the one that writes and speaks.

    Raises:
        UserError: RANK and WORLD_SIZE do not fit together.
    """
    rank, count = os.environ.get("RANK", "0"), process_count()
    if not rank.isdecimal() or int(rank) >= count:
        raise UserError(f"RANK={rank} and WORLD_SIZE={os.environ.get('WORLD_SIZE', '')} do not fit together", REMEDY)
    return int(rank)


def process_count() -> int:
    """How many processes were started.

    Raises:
        UserError: WORLD_SIZE is not a whole number from 1.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    if not count.isdecimal() or int(count) < 1:
        raise UserError(f"WORLD_SIZE={count} is not a number of processes", REMEDY)
    return int(count)
