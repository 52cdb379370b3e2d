"""The one exception for a user's mistake: caught by the command line, printed as one line, exit
code 2.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def printable(text: str) -> str:
    """Text that can be written as UTF-8: other bytes of a file name are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def nearest(name: object, choices: Iterable[str]) -> str:
    """The begin of a remedy for a mistyped name: "did you mean …? ", or "" if no name is near."""
    by_lower_case = {str(choice).lower(): choice for choice in choices}
    matches = get_close_matches(str(name).lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[matches[0]]!r}? " if matches else ""


def one_of(name: object, choices: Iterable[str], also: str = "") -> str:
    """A remedy for an unknown name: the nearest choice, then all of them, then what else there is.

    >>> one_of("simsce", ["simcse", "dclr"], ", or a .toml file")
    "did you mean 'simcse'? choose one of simcse, dclr, or a .toml file"
    """
    choices = list(choices)
    return f"{nearest(name, choices)}choose one of {', '.join(choices)}{also}"


class UserError(ValueError):
    """Something the user can put right: one line, with what is wrong (file, line or key, and value)
    and the remedy.

    Tests check ``code``, such as "too-few-documents", so the sentences can be improved freely.
    All of them are in docs/messages.md.
    """

    def __init__(self, problem: str, remedy: str, code: str) -> None:
        self.code = code
        self.problem = " ".join(printable(str(problem)).split())
        self.remedy = " ".join(printable(str(remedy)).split())
        super().__init__(f"{self.problem}: {self.remedy}")

    def __reduce__(self) -> "tuple[type[UserError], tuple[str, str, str]]":
        """The error can be sent to another process."""
        return type(self), (self.problem, self.remedy, self.code)


def check_known(what: str, name: object, choices: Iterable[str], also: str = "") -> None:
    """Check that ``name`` is one of ``choices``.

    Raises:
        UserError: such as "engine = 'rai' is unknown: did you mean 'ray'? choose one of …".
    """
    choices = list(choices)
    if name not in choices:
        remedy = one_of(name, choices, also)
        raise UserError(f"{what} {name!r} is unknown", remedy, code="unknown-name")


def needs(extra: str, module: str) -> Any:
    """Import a module that comes with one of isotrope's extras.

    Raises:
        UserError: its package is not installed; the remedy names the extra.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        problem = f"this needs {package}, which is not installed"
        remedy = f"pip install 'isotrope[{extra}]'"
        raise UserError(problem, remedy, code="package-missing") from error


class Stopped(Exception):
    """Long work was stopped, by Ctrl-C (exit code 130) or because another process ended. What was
    done is kept.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code
