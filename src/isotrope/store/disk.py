"""One clear message when a folder cannot be written: a full disk, a missing permission, a file in
the way.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from isotrope.errors import UserError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Also of something in the folder that is another user's, or a file system of its own, which cannot
# be replaced.
DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV}
# the last: torch.save, after a write cut short
WORDS_OF_FULL = ("No space left", "File too large", "unexpected pos")


@contextmanager
def writing(
    folder: Path,
    again: str = "give the same command again",
    elsewhere: str = "choose another folder",
) -> Iterator[None]:
    """Make ``folder``, with its parents, and write there. A new folder is removed again if nothing
    was written.

    UserError if the folder cannot be made or written to, with the remedy ``elsewhere``, or if its
    disk is full; ``again`` is what to do after freeing space.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except UserError:
        raise
    except Exception as error:  # safetensors and torch hide the system's error in their own
        code = error.errno if isinstance(error, OSError) else None
        if code in FULL or any(words in str(error) for words in WORDS_OF_FULL):
            raise UserError(
                f"no space left to write {folder}", f"free some, then {again}"
            ) from error
        if isinstance(error, OSError):
            below = isinstance(error.filename, str) and Path(error.filename).is_relative_to(folder)
            if (below and code in DENIED) or not os.access(folder, os.W_OK | os.X_OK):
                raise UserError(
                    f"{folder} cannot be written to ({error.strerror})", elsewhere
                ) from error
        raise
    finally:
        with suppress(OSError):
            for place in made:
                place.rmdir()  # goes only if nothing was written


def check_file(target: Path) -> Path:
    """Check, before long work, a file that its result will be written to -> its path; UserError if
    it cannot be.
    """
    target = target.resolve() if target.is_symlink() else target
    if (target.exists() and not target.is_file()) or not os.access(target.parent, os.W_OK):
        raise UserError(
            f"{target} cannot be written", "name a file, in a folder that exists and is yours"
        )
    return target


def check_space(
    folder: Path, needed: int, what: str, remedy: str = "free some, or write elsewhere"
) -> None:
    """UserError, which says ``what`` needs them, if fewer than ``needed`` bytes are free where
    ``folder`` will lie.
    """
    free = shutil.disk_usage(
        next(place for place in (folder, *folder.absolute().parents) if place.exists())
    ).free
    if needed > free:
        problem = (
            f"{what} needs {needed / 1e6:,.1f} MB in {folder}, where {free / 1e6:,.1f} are free"
        )
        raise UserError(problem, remedy)
