"""Whose a folder is. isotrope deletes and replaces only folders that carry its mark, ``.isotrope``.

A mark says what the folder is for (``{"kind": "run"}``), so that no command goes on in another command's folder.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from isotrope.errors import UserError

MARK = ".isotrope"
DRAFT = ".isotrope-draft"  # how the name of an unfinished file or folder ends: such names are ours too
LOCK = ".lock"


def kind_of(folder: Path) -> str | None:
    """What a folder is for, by its mark: ``run``, ``model``, …; None where there is none, or it is damaged."""
    try:
        kind = json.loads((folder / MARK).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kind if isinstance(kind, str) else None


def put_mark(folder: Path, kind: str) -> None:
    """Mark a folder as ours. Only for a folder that this process has just made, or that `claim` has checked."""
    (folder / MARK).write_text(json.dumps({"kind": kind}), encoding="utf-8")


def claim(folder: Path, kind: str) -> bool:
    """Take ``folder`` for ``kind``: a new or empty one gets the mark; one that has it already is gone on with.

    Returns:
        Whether the folder was taken before.

    Raises:
        UserError: it is a file or a link, holds anything else, or is for another kind of work.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a symbolic link", "name the folder itself")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", "choose a folder")
    if (found := kind_of(folder)) is not None:
        if found != kind:
            raise UserError(f"{folder} holds a {found}, not a {kind}", "choose a new or an empty folder")
        return True
    if folder.is_dir() and any(not _passing(path) for path in folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no {kind}", "choose a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    put_mark(folder, kind)
    return False


def remove(path: Path) -> None:
    """Delete a marked folder, or an unfinished file or folder of ours; what is missing is no error.

    Raises:
        UserError: it is not ours; nothing is deleted.
    """
    if path.is_symlink() or path.is_file():
        if not path.name.endswith(DRAFT):
            raise UserError(f"{path} was not made by isotrope", "move it away, or choose another folder")
        path.unlink(missing_ok=True)
    elif path.is_dir():
        if kind_of(path) is None and not path.name.endswith(DRAFT):
            raise UserError(f"{path} was not made by isotrope", "move it away, or choose another folder")
        shutil.rmtree(path)


def sweep(folder: Path) -> None:
    """Delete the unfinished files and folders that a killed process left in ``folder``; its holder alone may."""
    for path in folder.glob(f".*{DRAFT}"):
        remove(path)


def _passing(path: Path) -> bool:
    """What does not make a folder somebody's: a lock, a draft, a mark that a kill cut short."""
    return path.name in (LOCK, MARK) or path.name.endswith(DRAFT)
