"""Files and folders that appear whole or not at all. The one place of the package that renames anything."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from isotrope.errors import UserError
from isotrope.store.mark import DRAFT, check_place, put_mark, remove

_DRAFT_NAME = re.compile(rf"\.(?P<name>.+)\.(?P<process>\d+)(?P<old>\.old)?{re.escape(DRAFT)}", re.DOTALL)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write; at the end it is synced and takes the place of ``path``. After an error nothing stays.

    A link is followed: the file that it names is replaced. What is no file (a pipe, a terminal) is written to.

    Raises:
        UserError: ``path`` is a folder.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder", "name a file")
    if path.exists() and not path.is_file():
        with path.open("wb") as pipe:
            yield pipe
        return
    path = Path(os.path.realpath(path))
    clear_drafts(path.parent, path.name)
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
        UserError: as `check_replaceable`; the file system cannot replace it.
    """
    check_replaceable(folder, kind)
    folder = folder.resolve()
    clear_drafts(folder.parent, folder.name)
    draft = draft_path(folder)
    draft.mkdir(parents=True)
    try:
        yield draft
        put_mark(draft, kind)
        for path in draft.rglob("*"):
            if path.is_file():
                sync(path)
        if folder.is_dir():
            folder.replace(_old(draft))
        draft.replace(folder)
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EXDEV):  # a file system of its own, as of a container
            raise UserError(f"{folder} cannot be replaced ({error.strerror})", "name a folder below it") from error
        raise
    finally:
        clear_drafts(folder.parent, folder.name)


def check_replaceable(folder: Path, kind: str) -> None:
    """Whether `new_folder` can take this place: to be asked before a long work that ends there.

    Raises:
        UserError: ``folder`` is a file or a link, holds anything that is not ours, is of another kind, or the present
            folder lies in it.
    """
    check_place(folder, kind)
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UserError(f"the present folder lies in {folder}, which is to be replaced", "name another folder")


@contextmanager
def growing_file(path: Path, keep: int) -> Iterator[BinaryIO]:
    """The part of ``path`` that is there (`part_path`), open behind its first ``keep`` bytes; the rest is cut off.

    It outlives errors and kills, so that what comes in pieces goes on. `move` gives it its place.
    """
    part = part_path(path)
    with part.open("r+b" if keep else "wb") as file:
        file.truncate(keep)
        file.seek(keep)
        try:
            yield file
        finally:
            file.flush()
            os.fsync(file.fileno())


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


def part_path(path: Path) -> Path:
    """Where what comes in pieces gathers until it is whole. Of whoever holds the lock of ``path``; a kill leaves it."""
    return path.with_name(f".{path.name}.part{DRAFT}")


def clear_drafts(folder: Path, name: str | None = None) -> None:
    """Remove the drafts of ``name`` (None: all) that killed processes of this machine, or this one, left in ``folder``.

    A folder that was just being replaced comes back.
    """
    for draft in folder.glob(f".{escape(name) if name else '*'}.*{DRAFT}"):
        parts = _DRAFT_NAME.fullmatch(draft.name)
        if parts is None or parts["name"] != (name or parts["name"]) or _alive(int(parts["process"])):
            continue
        target = folder / parts["name"]
        with suppress(FileNotFoundError):  # another process does the same
            if parts["old"] and not target.exists():
                draft.replace(target)
            else:
                remove(draft)


def sync(path: Path) -> None:
    """Have the disk hold what was written."""
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())


def _old(draft: Path) -> Path:
    """Where the folder that a draft replaces waits."""
    return draft.with_name(f"{draft.name.removesuffix(DRAFT)}.old{DRAFT}")


def _alive(process: int) -> bool:
    """Whether another process of this machine has this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return process != os.getpid()
