"""One line for each reason why a folder cannot be written; and no trace where nothing was."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from isotrope.errors import UserError
from isotrope.store.disk import check_space, writing


def failure(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), None if path is None else str(path))


@pytest.mark.parametrize(
    "error",
    [
        *map(failure, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
        RuntimeError("No space left on device"),  # a library hides the system's error
        RuntimeError("I/O error: File too large (os error 27)"),
    ],
)
def test_a_full_disk(tmp_path: Path, error: Exception) -> None:
    expected = rf"no space left to write {tmp_path}/a/b: free some, then try again"
    with pytest.raises(UserError, match=expected), writing(tmp_path / "a" / "b", "try again"):
        raise error
    assert not list(tmp_path.iterdir())  # neither the folder nor its parent stays


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_missing_right(tmp_path: Path, number: int) -> None:
    """Also where the folder itself is ours, and something in it is another user's."""
    expected = rf"{tmp_path} cannot be written to \(.*\): go elsewhere"
    with pytest.raises(UserError, match=expected), writing(tmp_path, elsewhere="go elsewhere"):
        raise failure(number, tmp_path / "a.txt")


def test_a_missing_right_elsewhere_is_not_put_down_to_the_folder(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), writing(tmp_path):
        raise failure(errno.EACCES, tmp_path.parent / "corpus.txt")


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for path in ("a", "a/b", "link"):
        with pytest.raises(UserError, match=f"{path} cannot be written to"), writing(tmp_path / path):
            raise AssertionError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]


def test_space_is_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2_000_000_000))
    check_space(tmp_path / "not" / "yet", 2_000_000_000, "the array")
    with pytest.raises(UserError, match=r"the array needs 3.0 GB in .*yet, where 2.0 GB are free: free some"):
        check_space(tmp_path / "not" / "yet", 3_000_000_000, "the array")
