"""One process a folder: a second one is refused, or waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from isotrope.errors import UserError
from isotrope.store.atomic import clear_drafts
from isotrope.store.mark import LOCK


@contextmanager
def alone(folder: Path, *tidied: str) -> Iterator[None]:
    """Hold an existing ``folder`` for this process, and remove the drafts that a killed one left there.

    Args:
        folder: of ours.
        tidied: files that are deleted at the end if the folder holds nothing else.

    Raises:
        UserError: another process holds it.
    """
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            clear_drafts(folder)
            try:
                yield
            finally:
                _tidy(folder, LOCK, *tidied)
    except Timeout as error:
        raise UserError(f"{folder} is in use by another process", "wait for it, or choose another folder") from error


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Lock ``path``, a file or folder that may not exist yet, while it is made. Other processes wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}{LOCK}")):
        yield


def _tidy(folder: Path, *ours: str) -> None:
    """Delete these files if the folder holds nothing else."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= set(ours):
        for name in ours:
            (folder / name).unlink(missing_ok=True)
