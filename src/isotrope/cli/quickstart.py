"""``isotrope quickstart``: this machine's own documents, and the best model for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotrope.console.plain import plain_console
from isotrope.errors import Stopped


def quickstart(
    output: Annotated[str, typer.Option(help="Folder for the documents, the new model and the result.")] = (
        "isotrope-quickstart"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")] = 0,
) -> None:
    """Improve isotrope/small for documents of this machine, and judge it on others.

    The documents are the docstrings of the installed packages.
    """
    from isotrope.quickstart.run import quickstart as run
    from isotrope.quickstart.show import show_result

    console = plain_console()
    try:
        result = run(output, seed=seed, console=console)
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped  # the same command goes on, without --resume
    show_result(result, Path(output), console)
