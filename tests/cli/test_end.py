"""One of several processes ends, whatever Python would still wait for."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading
from isotrope.cli.end import end_at_once
threading.Thread(target=threading.Event().wait).start()  # Python would wait for it for ever
atexit.register(print, "sent")
with end_at_once():
    print("said", end=" ")
    {last}
"""


@pytest.mark.parametrize(
    ("last", "code", "error"),
    [("pass", 0, ""), ("sys.exit(130)", 130, ""), ("sys.exit()", 0, ""), ("1 / 0", 1, "ZeroDivisionError")],
)
def test_it_ends_with_its_exit_code_and_all_is_said(last: str, code: int, error: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(last=last)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, "said sent\n")
    assert error in done.stderr
