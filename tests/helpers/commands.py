"""Commands that run in the process of the tests."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest


def in_process(command: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command, which runs in this process."""
    from isotrope.cli.main import main

    monkeypatch.setattr(sys, "argv", ["isotrope", *command])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def check_line(err: str, expected: str) -> None:
    """A refusal is one line, in which the parts between … occur in this order.

    Before it, a command may say what it took the labels for.
    """
    *notes, line = err.splitlines()
    assert all(note.startswith("pairs: ") for note in notes), err
    assert line.startswith("isotrope: "), err
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), line), err


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def is_mistake(self, expected: str) -> None:
        assert self.code == 2, self.err
        check_line(self.err, expected)


Shell = Callable[..., Said]
