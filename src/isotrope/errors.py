"""The one exception for a user's mistake: caught by the command line, printed as one line, exit code 2."""

from __future__ import annotations


class UserError(ValueError):
    """Something the user can put right.

    The message is one line: what is wrong (with the file, line or key and the value) and, after it, the remedy.

    >>> raise UserError("corpus.txt does not exist", "check the path")
    Traceback (most recent call last):
    isotrope.errors.UserError: corpus.txt does not exist: check the path
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = " ".join(str(problem).split())
        self.remedy = " ".join(str(remedy).split())
        super().__init__(f"{self.problem}: {self.remedy}")


class Stopped(Exception):
    """The user stopped a long work with Ctrl-C; what was done is kept. The message says how to go on."""
