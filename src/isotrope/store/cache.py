"""The cache: files that can be made again, found by a key, and checked before they are used."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import xxhash

from isotrope.errors import UserError
from isotrope.store.files import (
    CONTENTS,
    DRAFT,
    LOCK,
    checksums,
    mark_of,
    new_folder,
    read_record,
    remove,
    value_checksum,
    write_json,
    writing,
)
from isotrope.store.job import in_turn

_KIND = "cache"  # of the mark
# Seconds: a folder that no run has opened for so long is deleted when a new one is made.
UNUSED = 30 * 24 * 3600


def cache_folder(*parts: str) -> Path:
    """A folder below ISOTROPE_CACHE, or below ``isotrope`` in the user's cache folder."""
    folder = os.environ.get("ISOTROPE_CACHE")
    if folder:
        return Path(folder).expanduser().joinpath(*parts)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache).expanduser().joinpath("isotrope", *parts)


def cached(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return ``folder``, and fill it by ``make`` first unless it is there and whole.

    Other processes wait meanwhile. The folder's name must be a key of all that decides its
    contents. ``make`` fills the empty folder that it is given. Long work may go on after a kill
    from a draft beside ``folder``, named ``.KEY.WORD.isotrope-draft``. UserError as
    `isotrope.store.files.writing`.
    """
    if not is_whole(folder):
        again = "run the same command again"
        with (
            writing(folder.parent, again, "set ISOTROPE_CACHE to another"),
            in_turn(folder),
        ):
            if not is_whole(folder):  # another process may have made it meanwhile
                _make(folder, make)
    with suppress(OSError):  # another user's cache
        os.utime(folder)
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    prune(folder.parent)
    if mark_of(folder) == _KIND:  # it is damaged
        remove(folder)
    with new_folder(folder, _KIND) as draft:
        make(draft)
        write_json(draft / CONTENTS, checksums(draft))


def is_whole(folder: Path, kind: str = _KIND) -> bool:
    """Whether a folder is marked as ``kind``, and its files are as they were written."""
    with suppress(OSError, UserError):
        is_ours = mark_of(folder) == kind
        return is_ours and read_record(folder / CONTENTS) == checksums(folder)
    return False


def prune(folder: Path) -> None:
    """Remove from one folder of the cache what no run has opened for 30 days.

    That is folders with our mark, locks, and drafts.
    """
    for path in folder.iterdir():
        with suppress(OSError, UserError):
            if time.time() - path.stat().st_mtime <= UNUSED:
                continue
            if path.name.endswith(LOCK):
                path.unlink()
            elif path.name.endswith(DRAFT) or mark_of(path) == _KIND:
                remove(path)


def remembered(kind: str, key: Any, compute: Callable[[], Any]) -> Any:
    """A small result: from the cache if its key is there, otherwise computed and stored.

    JSON makes lists of tuples. A damaged file counts as missing. If the file cannot be written, the
    result is returned all the same.
    """
    digest = xxhash.xxh3_128_hexdigest(json.dumps(key, sort_keys=True).encode())
    path = cache_folder(kind, f"{digest}.json")
    with suppress(UserError):
        record = read_record(path, ["checksum", "value"])
        if record["checksum"] == value_checksum(record["value"]):
            return record["value"]

    value = json.loads(json.dumps(compute()))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"checksum": value_checksum(value), "value": value})
    return value
