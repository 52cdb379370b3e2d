"""A quickstart whose race is over before it trains: post steps alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from isotrope.console.plain import plain_console
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.run import quickstart


def run(output: Path, tiny_model: Path, text: Docstrings | None, **options: Any) -> dict[str, Any]:
    """Quiet."""
    options = {"console": plain_console(file=io.StringIO()), **options}
    return quickstart(output, model=str(tiny_model), minutes=0.001, text=text, **options)
