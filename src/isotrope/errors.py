"""The one exception for a user's mistake: caught by the command line, printed as one line, exit code 2."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that any file in UTF-8 takes: the bytes of a file name that are not UTF-8 are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class UserError(ValueError):
    """Something the user can put right.

    The message is one line: what is wrong (with the file, line or key and the value) and, after it, the remedy.

    >>> raise UserError("corpus.txt does not exist", "check the path")
    Traceback (most recent call last):
    isotrope.errors.UserError: corpus.txt does not exist: check the path
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = " ".join(printable(str(problem)).split())
        self.remedy = " ".join(printable(str(remedy)).split())
        super().__init__(f"{self.problem}: {self.remedy}")


class Stopped(Exception):
    """The user stopped a long work with Ctrl-C; what was done is kept. The message says how to go on."""
