"""The one exception for a user's mistake: caught by the command line, printed as one line, exit
code 2.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def printable(text: str) -> str:
    """Text that any file in UTF-8 takes: the bytes of a file name that are not UTF-8 are shown as
    escapes.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def nearest(name: object, known: Iterable[str]) -> str:
    """The beginning of a remedy: the known name that a mistyped one is nearly, as a question;
    nothing if none is.
    """
    plain = {str(one).lower(): one for one in known}
    near = get_close_matches(str(name).lower(), plain, n=1)
    return f"did you mean {plain[near[0]]!r}? " if near else ""


def one_of(name: object, known: Iterable[str], also: str = "") -> str:
    """A remedy for an unknown name: the nearest known one, then all of them, then what else there
    is.

    >>> one_of("simsce", ["simcse", "dclr"], ", or a .toml file")
    "did you mean 'simcse'? choose one of simcse, dclr, or a .toml file"
    """
    known = list(known)
    return f"{nearest(name, known)}choose one of {', '.join(known)}{also}"


class UserError(ValueError):
    """Something the user can put right: one line, with what is wrong (file, line or key, and value)
    and the remedy.

    Tests check ``code``, such as "too-few-documents", so the sentences can be improved freely.
    """

    def __init__(self, problem: str, remedy: str, code: str = "") -> None:
        self.code = code
        self.problem = " ".join(printable(str(problem)).split())
        self.remedy = " ".join(printable(str(remedy)).split())
        super().__init__(f"{self.problem}: {self.remedy}")

    def __reduce__(self) -> "tuple[type[UserError], tuple[str, str, str]]":
        """As it travels from one process to another."""
        return type(self), (self.problem, self.remedy, self.code)


def check_known(what: str, name: object, known: Iterable[str], also: str = "") -> None:
    """Refuse a name that is none of the known: "engine = 'fais' is unknown: did you mean 'faiss'?
    choose one of …".
    """
    known = list(known)
    if name not in known:
        raise UserError(f"{what} {name!r} is unknown", one_of(name, known, also))


def needs(extra: str, module: str) -> Any:
    """A module of a package that comes with an extra of isotrope; UserError, with the extra, if it
    is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise UserError(
            f"this needs {package}, which is not installed", f"pip install 'isotrope[{extra}]'"
        ) from error


class Stopped(Exception):
    """A long work was stopped, by Ctrl-C (exit code 130) or because another process ended; what was
    done is kept.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code
