"""The cache: files that can be made again, found by a key, and checked before they are used."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import xxhash

from isotrope.errors import UserError
from isotrope.store.atomic import in_turn, new_folder, write_json
from isotrope.store.disk import writing
from isotrope.store.mark import DRAFT, LOCK, kind_of, remove
from isotrope.store.records import read_record

_KIND = "cache"  # of the mark
CONTENTS = "contents.json"  # of a cached folder: file name -> its checksum
# seconds: a folder that no run has opened for so long is deleted when a new one is made
UNUSED = 30 * 24 * 3600


def cache_folder(*parts: str) -> Path:
    """A folder below ISOTROPE_CACHE, or below ``isotrope`` in the user's cache folder."""
    base = os.environ.get("ISOTROPE_CACHE")
    root = (
        Path(base)
        if base
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isotrope"
    )
    return root.expanduser().joinpath(*parts)


def cached(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return ``folder``; fill it by ``make`` first unless it is there and whole. Other processes
    wait meanwhile.

    The folder's name must be a key of all that decides its contents. ``make`` fills the empty
    folder that it is given. Long work may go on after a kill from a draft beside ``folder``, named
    ``.KEY.WORD.isotrope-draft``. UserError as `isotrope.store.disk.writing`.
    """
    if not is_whole(folder):
        with (
            writing(folder.parent, "run the same command again", "set ISOTROPE_CACHE to another"),
            in_turn(folder),
        ):
            if not is_whole(folder):
                prune(folder.parent)
                if kind_of(folder) == _KIND:  # it is damaged
                    remove(folder)
                with new_folder(folder, _KIND) as draft:
                    make(draft)
                    write_json(draft / CONTENTS, checksums(draft))
    with suppress(OSError):  # another user's cache
        os.utime(folder)
    return folder


def is_whole(folder: Path, kind: str = _KIND) -> bool:
    """Whether a folder is marked as ``kind``, and every file has the contents that it was written
    with.
    """
    with suppress(OSError, UserError):
        return kind_of(folder) == kind and read_record(folder / CONTENTS) == checksums(folder)
    return False


def checksums(folder: Path) -> dict[str, str]:
    """Path within a folder -> xxh3 of each file, also in folders below it, but for the list itself
    and hidden files.
    """
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = sorted(
        name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts)
    )
    return {name: file_checksum(folder / name) for name in shown if name != CONTENTS}


def file_checksum(path: Path) -> str:
    """xxh3 of a file's bytes, 128 bits, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def prune(folder: Path) -> None:
    """Remove from one folder of the cache what no run has opened for 30 days: folders with our
    mark, locks, drafts.
    """
    for path in folder.iterdir():
        with suppress(OSError, UserError):
            if time.time() - path.stat().st_mtime > UNUSED:
                if path.name.endswith(LOCK):
                    path.unlink()
                elif path.name.endswith(DRAFT) or kind_of(path) == _KIND:
                    remove(path)


def remembered(kind: str, key: Any, compute: Callable[[], Any]) -> Any:
    """A small result, from the cache if its key is there, else computed and kept. JSON makes lists
    of tuples.

    A damaged file counts as missing. If the file cannot be written, the result is returned all the
    same.
    """
    digest = xxhash.xxh3_128_hexdigest(json.dumps(key, sort_keys=True).encode())
    path = cache_folder(kind, f"{digest}.json")
    with suppress(UserError):
        kept = read_record(path, ["checksum", "value"])
        if kept["checksum"] == _checksum(kept["value"]):
            return kept["value"]
    value = json.loads(json.dumps(compute()))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"checksum": _checksum(value), "value": value})
    return value


def _checksum(value: Any) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(value, sort_keys=True).encode())
