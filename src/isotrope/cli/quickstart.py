"""``isotrope quickstart``: this machine's own documents, and the best model for them."""

from __future__ import annotations

from pathlib import Path

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console


@command(output=Word("Folder for the documents, the new model and the result."))
def quickstart(*, output: str = "isotrope-quickstart", seed: int = 0) -> None:
    """Improve isotrope/small for documents of this machine, and judge it on others.

    The documents are the docstrings of the installed packages.
    """
    from isotrope.quickstart.run import quickstart as run
    from isotrope.quickstart.show import show_result

    console = plain_console()
    show_result(run(output, seed=seed, console=console), Path(output), console)
