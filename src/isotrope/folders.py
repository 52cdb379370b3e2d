"""Where things are written, and what is said when they cannot be."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from isotrope.errors import UserError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST}
UNUSED = 30 * 24 * 3600  # seconds; what no run has opened for so long makes room for what is new
SPARE = 1 << 20  # bytes; with less than this left, whatever failed to be written failed for want of space


def cache(*parts: str) -> Path:
    """The folder for what can be made again: ISOTROPE_CACHE, or ``isotrope`` in the user's cache folder."""
    base = os.environ.get("ISOTROPE_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isotrope"
    return root.expanduser().joinpath(*parts)


def prune(folder: Path) -> None:
    """Remove from a folder of the cache what no run has opened for long; a run that has it open keeps it."""
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def writing(folder: Path, again: str = "go on with --resume") -> Iterator[None]:
    """Make ``folder`` and write there; what cannot be written is the user's to put right, and no empty folder stays.

    ``again`` is what to do after space was freed.

    Raises:
        UserError: the folder cannot be made or written to, or its disk is full.
    """
    made = not folder.exists()
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file", "choose a folder")
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except UserError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise full(folder, again) from error
        if error.errno in REFUSED and not _usable(folder):
            raise UserError(f"{folder} cannot be written to ({error.strerror})", "choose another folder") from error
        raise
    except Exception as error:  # safetensors and torch hide the system's error in their own
        if "No space left" in str(error) or "File too large" in str(error) or _free(folder) < SPARE:
            raise full(folder, again) from error
        raise
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()  # goes only if nothing was written


def full(folder: Path, again: str = "go on with --resume") -> UserError:
    """The one line for a full disk."""
    return UserError(f"no space left to write {folder}", f"free some, then {again}")


def _usable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _free(folder: Path) -> int:
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(place).free
