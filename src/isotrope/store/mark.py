"""Whose a folder is. isotrope deletes and replaces only folders that carry its mark, ``.isotrope``.

A mark says what the folder is for (``{"kind": "run"}``), so that no command writes into another
command's folder.
"""

import json
import shutil
from contextlib import suppress
from pathlib import Path

from isotrope.errors import UserError, printable

MARK = ".isotrope"
# how the name of an unfinished file or folder ends: such names are ours too
DRAFT = ".isotrope-draft"
LOCK = ".lock"


def kind_of(folder: Path) -> str | None:
    """What a folder is for, by its mark: ``run``, ``model``, …; None where there is none, or it is
    damaged.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        kind = json.loads((folder / MARK).read_text(encoding="utf-8"))["kind"]
        return kind if isinstance(kind, str) else None
    return None


def put_mark(folder: Path, kind: str) -> None:
    """Mark a folder as ours. Only for a folder that this process has just made, or that
    `check_place` has passed.
    """
    (folder / MARK).write_text(json.dumps({"kind": kind}), encoding="utf-8")


def check_place(folder: Path, kind: str) -> None:
    """UserError unless ``folder`` may be taken for ``kind``: it is new, empty, or was taken for it
    before.

    Its path must be UTF-8, because safetensors and tokenizers cannot open others.
    """
    found, fault = kind_of(folder), ""
    if printable(str(folder.absolute())) != str(folder.absolute()):
        fault = "is not a path in UTF-8"
    elif folder.is_symlink():
        fault = "is a symbolic link"
    elif folder.exists() and not folder.is_dir():
        fault = "is a file"
    elif found not in (None, kind):
        fault = f"was made as {found}, not as {kind}"
    elif not found and folder.is_dir() and not all(map(leftover, folder.iterdir())):
        fault = f"is not empty and holds no {kind}"
    if fault:
        raise UserError(f"{folder} {fault}", "choose another folder, new or empty")


def claim(folder: Path, kind: str) -> None:
    """Take ``folder`` for ``kind``, if `check_place` passes: a new or empty one gets the mark."""
    check_place(folder, kind)
    if kind_of(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
        put_mark(folder, kind)


def remove(path: Path) -> None:
    """Delete a marked folder, or an unfinished file or folder of ours; UserError if it is there and
    not ours.

    Links within it are deleted, not followed. The mark is deleted last, so that after a kill the
    rest is still ours.
    """
    is_folder = path.is_dir() and not path.is_symlink()
    ours = path.name.endswith(DRAFT) or (is_folder and kind_of(path) is not None)
    if not ours and (path.exists() or path.is_symlink()):
        raise UserError(
            f"{path} was not made by isotrope", "move it away, or choose another folder"
        )
    with suppress(FileNotFoundError):  # another process removes the same
        if is_folder:
            empty(path, MARK)
            shutil.rmtree(path, ignore_errors=True)  # another process may begin anew there
        else:
            path.unlink()


def empty(folder: Path, *kept: str) -> None:
    """Delete what a folder of ours holds, but for these files. The caller has checked that it is
    ours.
    """
    for inner in folder.iterdir():
        if inner.is_dir() and not inner.is_symlink():
            shutil.rmtree(inner)
        elif inner.name not in kept:
            inner.unlink()


def leftover(path: Path) -> bool:
    """A file that a folder may hold and still count as empty: a lock, a draft, a mark that a kill
    cut short.
    """
    return path.name in (LOCK, MARK) or path.name.endswith(DRAFT)
