"""Files of known data sets: where they are, and one clear line for one that is missing or not as it
was published.
"""

import csv
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import xxhash

from isotrope.benchmark_data.sources import existing_folder
from isotrope.errors import UserError

_REMEDY = (
    "check the download (isotrope data fetch, isotrope data prepare), and set ISOTROPE_DATA or "
    "pass --data with the folder that holds senteval/ and domain/"
)
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    SyntaxError,
    EOFError,
    RuntimeError,
    csv.Error,
    zipfile.BadZipFile,
)

DataFolder: TypeAlias = str | Path | None  # None: the one that ISOTROPE_DATA names
Rows = TypeVar("Rows", bound=Sequence[object])


def data_folder(data: DataFolder) -> Path:
    """The folder given, or else the one that ISOTROPE_DATA names.

    Raises UserError if there is none.
    """
    if data is None:
        data = os.environ.get("ISOTROPE_DATA")
        if not data:
            raise UserError(
                "no data folder given",
                "pass --data (or set ISOTROPE_DATA) with the folder that holds senteval/, or use "
                "labels of your own",
                code="no-data-folder",
            )
    return existing_folder(data)


def downstream_folder(data: DataFolder) -> Path:
    """SentEval's `downstream` folder: in `senteval/`, in `data`, as SentEval has it, or `data`
    itself.
    """
    folder = data_folder(data)
    if folder.name == "downstream":
        return folder
    inside = folder / "downstream"
    return inside if inside.is_dir() else folder / "senteval" / "downstream"


def data_checksum(data: Path, subfolders: tuple[str, ...]) -> str:
    """Checksum over names and bytes of all files in some folders of the data folder, or of it if it
    is one of them.
    """
    folders = [data / name for name in subfolders if (data / name).is_dir()]
    if not folders and data.name in subfolders:
        folders = [data]

    digest = xxhash.xxh3_128()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(data)}\n".encode(errors="surrogateescape"))
                with downloaded(path):
                    digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def downloaded(path: Path) -> Iterator[None]:
    """Read ``path`` here. Whatever is wrong with it becomes one UserError."""
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, FileNotFoundError):
            raise UserError(f"{path} does not exist", _REMEDY, code="missing-file") from error
        raise UserError(f"{path} is damaged ({error})", _REMEDY, code="damaged-file") from error


def counted(rows: Rows, expected: int) -> Rows:
    """The rows, if they are as many as expected, because a truncated or swapped file gives numbers
    that look right.

    Raises ValueError otherwise, which `downloaded` turns into a UserError.
    """
    if len(rows) != expected:
        raise ValueError(f"{len(rows)} rows found, {expected} expected")
    return rows


def lines_of(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """Lines as SentEval reads them: a newline alone ends one (str.splitlines would also cut at
    U+2028 or U+0085).
    """
    text = path.read_bytes().decode(encoding)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    return lines
