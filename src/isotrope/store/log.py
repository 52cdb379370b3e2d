"""What a process prints, kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO


def open_log(path: Path) -> TextIO:
    """A text file to append to, one line at a time. What its encoding cannot hold is escaped."""
    return path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
