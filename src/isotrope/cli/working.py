"""How a command that computes begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import limit_threads

P = ParamSpec("P")
R = TypeVar("R")


def working(command: Callable[P, R], *, alone: bool = True) -> Callable[P, R]:
    """The command, which says that it loads the libraries (they take seconds) and limits the processor's threads.

    With ``alone``, it refuses to run in several processes.
    """

    @wraps(command)
    def begun(*arguments: P.args, **options: P.kwargs) -> R:
        first = os.environ.get("RANK", "0") == "0"
        with watch("loading the libraries", plain_console(stderr=True, quiet=not first)):
            import sentence_transformers  # noqa: F401

            limit_threads()
        if alone:
            from isotrope.training.processes import refuse_several

            refuse_several(command.__name__)
        return command(*arguments, **options)

    return begun
