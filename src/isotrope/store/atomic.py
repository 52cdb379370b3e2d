"""Files and folders that appear whole or not at all, and locks. The one place of the package that
renames anything.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import psutil
from filelock import FileLock, Timeout

from isotrope.errors import UserError
from isotrope.store.mark import DRAFT, LOCK, check_place, put_mark, remove

_DRAFT_NAME = re.compile(
    rf"\.(?P<name>.+)\.(?P<process>\d{{1,9}})(?P<old>\.old)?{re.escape(DRAFT)}", re.DOTALL
)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write. At the end it is synced and replaces ``path``. After an error,
    nothing is left.

    A link is followed: the file that it names is replaced. A pipe or a terminal is written to
    directly.
    """
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
    """An empty folder to fill. At the end it is marked as ``kind`` and replaces ``folder``; see
    `check_replaceable`.
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
            folder.replace(draft.with_name(f"{draft.name.removesuffix(DRAFT)}.old{DRAFT}"))
        draft.replace(folder)
    finally:
        clear_drafts(folder.parent, folder.name)


def check_replaceable(folder: Path, kind: str) -> None:
    """As `check_place`, for `new_folder`: UserError also if the current folder is inside it."""
    check_place(folder, kind)
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UserError(
            f"the current folder is inside {folder}, which would be replaced", "name another folder"
        )


def write_text(path: Path, text: str) -> None:
    """Replace a text file (UTF-8): the old text or the new one is there, never half of it."""
    with new_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file, as `write_text`."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def move(source: Path, target: Path) -> None:
    """Rename a file or folder. The caller holds its lock."""
    source.replace(target)


def draft_path(path: Path) -> Path:
    """Where ``path`` is written until it is whole. Each process has its own, since two may write
    the same file.
    """
    return path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")


def write_behind(path: Path, place: int, data: bytes) -> None:
    """Write behind the first ``place`` bytes of a file, in place of what a kill left there.

    No memory map: writing through one to a full disk ends the process with SIGBUS.
    """
    with path.open("r+b" if place else "wb") as file:
        file.seek(place)
        file.truncate()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_log(path: Path) -> TextIO:
    """A text file to append to, one line at a time. What its encoding cannot hold is escaped."""
    return path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)


def clear_drafts(folder: Path, name: str | None = None) -> None:
    """Remove the drafts of ``name`` (None: all) in ``folder`` that killed processes of this
    machine, or this one, left.

    If a kill came while a folder was replaced, the old folder is put back.
    """
    for draft in folder.glob(f".*{DRAFT}"):
        parts = _DRAFT_NAME.fullmatch(draft.name)
        if parts is None or name not in (None, parts["name"]):
            continue
        if (process := int(parts["process"])) != os.getpid() and psutil.pid_exists(process):
            continue
        target = folder / parts["name"]
        with suppress(FileNotFoundError):  # another process does the same
            if parts["old"] and not target.exists():
                draft.replace(target)
            else:
                remove(draft)


def sync(path: Path) -> None:
    """Wait until the disk holds what was written."""
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def alone(folder: Path, *tidied: str) -> Iterator[None]:
    """Hold an existing folder of ours for this process, and remove the drafts that a killed one
    left there.

    UserError if another holds it. At the end, the files ``tidied`` are deleted if the folder holds
    nothing else.
    """
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            clear_drafts(folder)
            try:
                yield
            finally:
                # encode removes it
                if folder.is_dir() and {path.name for path in folder.iterdir()} <= {LOCK, *tidied}:
                    for name in (LOCK, *tidied):
                        (folder / name).unlink(missing_ok=True)
    except Timeout as error:
        raise UserError(
            f"{folder} is in use by another process", "wait for it, or choose another folder"
        ) from error


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Lock ``path``, a file or folder that may not exist yet, while it is made. Other processes
    wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}{LOCK}")):
        yield
