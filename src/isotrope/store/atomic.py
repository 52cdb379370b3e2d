"""Files and folders that appear whole or not at all. The one place of the package that renames anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from isotrope.errors import UserError
from isotrope.store.mark import DRAFT, kind_of, put_mark, remove


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write; at the end it is synced and takes the place of ``path``. After an error nothing stays."""
    _forget_dead(path)
    draft = draft_path(path)
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path, kind: str) -> Iterator[Path]:
    """An empty folder to fill; at the end it is marked as ``kind`` and takes the place of ``folder``.

    Raises:
        UserError: ``folder`` exists, is not empty, and is not ours.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} is not a folder", "choose another name")
    if folder.is_dir() and kind_of(folder) is None and any(folder.iterdir()):
        raise UserError(f"{folder} holds something already", "choose a new or an empty folder")
    _forget_dead(folder)
    draft = draft_path(folder)
    draft.mkdir(parents=True)
    try:
        yield draft
        put_mark(draft, kind)
        for path in draft.rglob("*"):
            if path.is_file():
                sync(path)
        old = draft.with_name(draft.name.replace(DRAFT, f".old{DRAFT}"))
        if folder.is_dir():
            folder.replace(old)  # a kill between these two lines leaves neither; the caller makes it again
        draft.replace(folder)
        remove(old)
    finally:
        remove(draft)


def write_text(path: Path, text: str) -> None:
    """Replace a text file (UTF-8) at one stroke."""
    with new_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file at one stroke."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def move(source: Path, target: Path) -> None:
    """Rename what this process holds the lock of."""
    source.replace(target)


def draft_path(path: Path) -> Path:
    """Where ``path`` is written until it is whole. Of this process alone, since another may write the same file."""
    return path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")


def _forget_dead(path: Path) -> None:
    """Remove the drafts of ``path`` that processes of this machine left when they were killed."""
    for draft in path.parent.glob(f".{escape(path.name)}.*{DRAFT}"):
        process = draft.name.removesuffix(DRAFT).removesuffix(".old").rpartition(".")[2]
        if process.isdigit() and not _alive(int(process)):
            remove(draft)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return process != os.getpid()


def sync(path: Path) -> None:
    """Have the disk hold what was written."""
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
