"""Files of known data sets: where they lie, and one clear line for one that is missing or not as it was published."""

import csv
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from isotrope.errors import UserError

_REMEDY = "check the download, and set ISOTROPE_DATA or pass --data with the folder that holds senteval/ and domain/"
_DAMAGE = (OSError, ValueError, LookupError, SyntaxError, EOFError, RuntimeError, csv.Error, zipfile.BadZipFile)

Some = TypeVar("Some", bound=Sequence[object])


def data_folder(data: str | Path | None) -> Path:
    """The folder given, or else the one that ISOTROPE_DATA names; UserError where there is none."""
    given = data if data is not None else os.environ.get("ISOTROPE_DATA") or None
    if given is None:
        remedy = "pass --data (or set ISOTROPE_DATA) with the folder that holds senteval/, or use labels of your own"
        raise UserError("no data folder given", remedy)
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} does not exist", "set ISOTROPE_DATA or pass --data with another")
    return folder


def downstream_folder(data: str | Path | None) -> Path:
    """SentEval's `downstream` folder below (or at) `data`; UserError where there is none."""
    folder = data_folder(data)
    for candidate in (folder / "senteval" / "downstream", folder / "downstream", folder):
        if candidate.name == "downstream" and candidate.is_dir():
            return candidate
    raise UserError(f"{folder} holds neither senteval/downstream nor downstream", _REMEDY)


@contextmanager
def downloaded(path: Path) -> Iterator[None]:
    """Read ``path`` here. Whatever is wrong with it becomes one UserError."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", _REMEDY) from None
    except _DAMAGE as error:
        raise UserError(f"{path} is damaged ({' '.join(str(error).split())})", _REMEDY) from error


def counted(rows: Some, expected: int) -> Some:
    """The rows, which must be so many: a truncated or swapped file gives numbers that look right."""
    if len(rows) != expected:
        raise ValueError(f"{len(rows)} rows found, {expected} expected")
    return rows


def lines_of(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """Lines as SentEval reads them: a newline alone ends one (str.splitlines would also cut at U+2028 or U+0085)."""
    lines = [line.rstrip("\r") for line in path.read_bytes().decode(encoding).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
