"""A quickstart of 20 steps."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from isotrope.console.plain import plain_console
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.run import quickstart

SMALL = ["train.batch_size=16", "train.eval_steps=5", "train.learning_rate=1e-3"]


def run(output: Path, tiny_model: Path, text: Docstrings | None, **options: Any) -> dict[str, Any]:
    """Quiet."""
    options = {"console": plain_console(file=io.StringIO()), **options}
    return quickstart(output, backbone=str(tiny_model), text=text, overrides=SMALL, **options)
