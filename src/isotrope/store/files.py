"""Files and folders that appear whole or not at all: writing, marks, records, checksums.

Only this room writes, renames and deletes. isotrope deletes and replaces only folders that carry
its mark, ``.isotrope``, which says what the folder is for (``{"kind": "run"}``). So no command
writes into another command's folder, or into a folder of the user's.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import psutil
import xxhash

from isotrope.errors import UserError, printable

Record = dict[str, Any]

MARK = ".isotrope"
LOCK = ".lock"
DRAFT = ".isotrope-draft"  # how the name of an unfinished file or folder ends: it is ours too
CONTENTS = "contents.json"  # of a folder: file name -> its checksum
SEAL = "record_checksum"  # the key of a record for the checksum of its other keys

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# A library may hide the system's error in its own. The last words are torch.save's.
_WORDS_OF_FULL = ("No space left", "File too large", "unexpected pos")
# Also if something in the folder is another user's, or a file system of its own.
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV}

_DRAFT_NAME = re.compile(
    rf"\.(?P<name>.+)\.(?P<process>\d{{1,9}})(?P<old>\.old)?{re.escape(DRAFT)}", re.DOTALL
)


# --- writing: the old file or folder is there, or the new one


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write. At the end it is synced and replaces ``path``.

    After an error, nothing is left. A link is followed: the file that it names is replaced. A pipe
    or a terminal is written to directly.
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
    """An empty folder to fill. At the end it is marked as ``kind`` and replaces ``folder``.

    UserError as `check_replaceable`.
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
            old_name = f"{draft.name.removesuffix(DRAFT)}.old{DRAFT}"
            folder.replace(draft.with_name(old_name))
        draft.replace(folder)
    finally:
        clear_drafts(folder.parent, folder.name)


def write_text(path: Path, text: str) -> None:
    """Replace a text file (UTF-8)."""
    with new_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def move(source: Path, target: Path) -> None:
    """Rename a file or folder. The caller holds its lock."""
    source.replace(target)


def write_behind(path: Path, place: int, data: bytes) -> None:
    """Write after the first ``place`` bytes of a file, in place of what a kill left there.

    This is no memory map, because writing through one to a full disk ends the process with SIGBUS.
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


def sync(path: Path) -> None:
    """Wait until the disk holds what was written."""
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())


# --- drafts


def draft_path(path: Path) -> Path:
    """Where this process writes ``path`` until it is whole: two may write the same file."""
    return path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")


def clear_drafts(folder: Path, name: str | None = None) -> None:
    """Remove the drafts of ``name`` (None: all) in ``folder`` whose processes are dead, or this
    one.

    If a kill came while a folder was replaced, the old folder is put back.
    """
    for draft in folder.glob(f".*{DRAFT}"):
        match = _DRAFT_NAME.fullmatch(draft.name)
        if match is None or name not in (None, match["name"]):
            continue

        process = int(match["process"])
        if process != os.getpid() and psutil.pid_exists(process):
            continue

        target = folder / match["name"]
        with suppress(FileNotFoundError):  # another process does the same
            if match["old"] and not target.exists():
                draft.replace(target)
            else:
                remove(draft)


# --- marks: whose a folder is


def mark_of(folder: Path) -> str | None:
    """What a folder is for, by its mark: ``run``, ``model`` …; None if it has none that is
    whole.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
        kind = mark["kind"]
        if isinstance(kind, str):
            return kind
    return None


def put_mark(folder: Path, kind: str) -> None:
    """Mark a folder that this process has just made, or that `check_place` has passed."""
    write_text(folder / MARK, json.dumps({"kind": kind}))


def check_place(folder: Path, kind: str) -> None:
    """UserError unless ``folder`` is new, empty, or was taken for ``kind`` before.

    Its path must be UTF-8, because safetensors and tokenizers cannot open others.
    """
    problem = _problem_of_place(folder, kind)
    if problem:
        raise UserError(
            f"{folder} {problem}", "choose another folder, new or empty", "folder-is-not-ours"
        )


def _problem_of_place(folder: Path, kind: str) -> str:
    path = str(folder.absolute())
    if printable(path) != path:
        return "is not a path in UTF-8"
    if folder.is_symlink():
        return "is a symbolic link"
    if folder.exists() and not folder.is_dir():
        return "is a file"
    if not folder.is_dir():
        return ""

    mark = mark_of(folder)
    if mark:
        return "" if mark == kind else f"was made as {mark}, not as {kind}"
    # Nobody else makes such a file, and a loss of power may leave it empty.
    is_ours = is_empty_file(folder / MARK)
    if is_ours or all(is_leftover(path) for path in folder.iterdir()):
        return ""
    return f"is not empty and holds no {kind}"


def check_replaceable(folder: Path, kind: str) -> None:
    """UserError if `new_folder` may not replace ``folder``, or the current folder is inside it."""
    check_place(folder, kind)
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UserError(
            f"the current folder is inside {folder}, which would be replaced",
            "name another folder",
            "inside-the-current-folder",
        )


def claim(folder: Path, kind: str) -> None:
    """Take ``folder`` for ``kind``, if `check_place` passes: a new or empty one gets the mark."""
    check_place(folder, kind)
    if mark_of(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
        put_mark(folder, kind)


def remove(path: Path) -> None:
    """Delete a marked folder, or an unfinished file or folder of ours.

    Links within it are deleted, not followed. The mark is deleted last, so that after a kill the
    rest is still ours. UserError if the path is there and not ours.
    """
    is_folder = path.is_dir() and not path.is_symlink()
    is_marked = is_folder and mark_of(path) is not None
    is_there = path.exists() or path.is_symlink()
    if is_there and not is_marked and not path.name.endswith(DRAFT):
        raise UserError(
            f"{path} was not made by isotrope",
            "move it away, or choose another folder",
            "folder-is-not-ours",
        )

    with suppress(FileNotFoundError):  # another process removes the same
        if is_folder:
            empty(path, MARK)
            shutil.rmtree(path, ignore_errors=True)  # another process may begin anew there
        else:
            path.unlink()


def empty(folder: Path, *exceptions: str) -> None:
    """Delete what a folder of ours holds, but for these files. The caller knows that it is ours."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in exceptions:
            path.unlink()


def is_leftover(path: Path) -> bool:
    """Whether a folder that holds this file still counts as empty: a lock, a mark, a draft."""
    return path.name in (LOCK, MARK) or path.name.endswith(DRAFT)


def is_empty_file(path: Path) -> bool:
    """Whether this is a file without a byte, which a loss of power may leave of one of ours."""
    return path.is_file() and path.stat().st_size == 0


# --- records: JSON, read only here, so that any damage gives one clear line


def read_record(
    path: Path, keys: Collection[str] = (), remedy: str = "delete it, or choose another folder"
) -> Record:
    """A JSON object that isotrope wrote.

    ``keys`` must be in it. As ``{"scores": dict}``, they say which types their values have.
    UserError if the file is missing or damaged, lacks a key, or its seal (`sealed`) is broken.
    """
    types = keys if isinstance(keys, Mapping) else dict.fromkeys(keys, object)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        is_whole = isinstance(record, dict)
        for key, kind in types.items():
            is_whole = is_whole and isinstance(record[key], kind)
    except (OSError, ValueError, KeyError) as error:
        state = "damaged" if path.is_file() else "missing"
        raise UserError(f"{path} is {state} ({error})", remedy, f"{state}-record") from error

    if is_whole and SEAL in record:  # older records have none
        seal = record.pop(SEAL)
        is_whole = seal == value_checksum(record)
    if not is_whole:
        raise UserError(f"{path} is damaged", remedy, "damaged-record")
    return record  # type: ignore[no-any-return]


def sealed(record: Mapping[str, Any]) -> Record:
    """A record with a checksum of its other keys, by which `read_record` notices other bytes."""
    return {**record, SEAL: value_checksum(record)}


class RecordLog:
    """Records, one a line (JSON Lines), to which a process appends.

    A line that a kill cut short is ignored, with all after it.
    """

    def __init__(self, path: Path, writing: bool = True) -> None:
        """Read what is there. Only the process that is ``writing`` changes the file."""
        self.path = path
        self.writing = writing
        self.records: list[Record] = []

        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        lines = text.splitlines()
        with suppress(ValueError, TypeError):
            for line in lines:
                self.records.append(dict(json.loads(line)))

        ends_whole = not text or text.endswith("\n")
        if len(self.records) < len(lines) or not ends_whole:
            self.keep(self.records)  # otherwise the next record would follow half a line

    def keep(self, records: Sequence[Record]) -> None:
        """Hold these, and no others."""
        self.records = list(records)
        if self.writing:
            lines = [json.dumps(record) + "\n" for record in self.records]
            write_text(self.path, "".join(lines))

    def add(self, record: Record) -> None:
        """Append one."""
        self.records.append(record)
        if self.writing:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


# --- checksums


def file_checksum(path: Path) -> str:
    """xxh3 of a file's bytes, 128 bits, hexadecimal."""
    with path.open("rb") as file:
        return stream_checksum(file)


def stream_checksum(file: Any) -> str:
    """`file_checksum` of an open binary file."""
    return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def value_checksum(value: Any) -> str:
    """xxh3 of a value as JSON, 64 bits, hexadecimal."""
    return xxhash.xxh3_64_hexdigest(json.dumps(value, sort_keys=True).encode())


def checksums(folder: Path) -> dict[str, str]:
    """Path within a folder -> xxh3 of each file, also in folders below it.

    The list itself and hidden files are left out.
    """
    names = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        is_hidden = "/." in f"/{name}"
        if path.is_file() and not is_hidden and name != CONTENTS:
            names.append(name)
    return {name: file_checksum(folder / name) for name in sorted(names)}


# --- one clear line if a folder cannot be written


@contextmanager
def writing(
    folder: Path,
    again: str = "give the same command again",
    elsewhere: str = "choose another folder",
) -> Iterator[None]:
    """Make ``folder``, with its parents, and write there.

    A new folder is removed again if nothing was written. UserError if the folder cannot be made or
    written to, with the remedy ``elsewhere``, or if its disk is full; ``again`` is what to do after
    freeing space.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except UserError:
        raise
    except Exception as error:
        if _says_full(error):
            problem = f"no space left to write {folder}"
            raise UserError(problem, f"free some, then {again}", "disk-full") from error
        if isinstance(error, OSError) and _says_denied(error, folder):
            problem = f"{folder} cannot be written to ({error.strerror})"
            raise UserError(problem, elsewhere, "not-writable") from error
        raise
    finally:
        with suppress(OSError):  # which a folder raises that holds something
            for path in new_folders:
                path.rmdir()


def _says_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    return any(words in str(error) for words in _WORDS_OF_FULL)


def _says_denied(error: OSError, folder: Path) -> bool:
    filename = error.filename
    is_below = isinstance(filename, str) and Path(filename).is_relative_to(folder)
    if is_below and error.errno in _DENIED:
        return True
    return not os.access(folder, os.W_OK | os.X_OK)


def check_file(target: Path) -> Path:
    """Check, before long work, a file that its result will be written to -> its path.

    UserError if it cannot be written.
    """
    if target.is_symlink():
        target = target.resolve()
    is_other = target.exists() and not target.is_file()
    if is_other or not os.access(target.parent, os.W_OK):
        remedy = "name a file, in a folder that exists and is yours"
        raise UserError(f"{target} cannot be written", remedy, "not-writable")
    return target


def check_space(
    folder: Path, needed: int, what: str, remedy: str = "free some, or write elsewhere"
) -> None:
    """UserError if fewer than ``needed`` bytes are free where ``folder`` will be.

    The line says ``what`` needs them.
    """
    folders = (folder, *folder.absolute().parents)
    existing = next(path for path in folders if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        sizes = f"{needed / 1e6:,.1f} MB in {folder}, where {free / 1e6:,.1f} are free"
        problem = f"{what} needs {sizes}"
        raise UserError(problem, remedy, "disk-full")
