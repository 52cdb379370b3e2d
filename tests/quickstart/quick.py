"""A quickstart whose race trains nothing: post steps alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from unittest.mock import patch

from isotrope.console.plain import plain_console
from isotrope.improvement.race import Race
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.run import quickstart


def run(output: Path, tiny_model: Path, text: Docstrings | None, **options: Any) -> dict[str, Any]:
    """Quiet."""
    options = {"console": plain_console(file=io.StringIO()), **options}
    with patch.object(Race, "trainings", lambda *_: None):
        return quickstart(output, model=str(tiny_model), minutes=5, text=text, **options)
