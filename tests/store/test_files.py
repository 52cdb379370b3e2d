"""Files and folders that appear whole or not at all, also after a kill; what is ours, and what
cannot be written.
"""

import errno
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.forks import code, fork
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.store.files import (
    DRAFT,
    LOCK,
    MARK,
    check_place,
    check_space,
    claim,
    clear_drafts,
    draft_path,
    mark_of,
    new_file,
    new_folder,
    put_mark,
    remove,
    write_text,
    writing,
)

DEAD = 2**22 + 1  # no process has this number


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        write_text(tmp_path / "a.txt", "new" * 1000)

    assert code(fork(work)) == 1
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "there" / "a.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """So ``--json /dev/stdout`` does not replace the device."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "new")
    assert os.read(reader, 10) == b"new"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"na\xefve [*]")
    write_text(path, "new")
    draft_path(path).write_text("of a killed process with this number")
    clear_drafts(tmp_path, path.name)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def fill(folder: Path, number: int) -> None:
    with new_folder(folder, "model") as draft:
        for i in range(20):
            (draft / f"{i}.txt").write_text(str(number))


def test_after_an_error_the_old_file_and_the_old_folder_stay(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    fill(tmp_path / "m", 1)
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a.txt") as file:
        file.write(b"%d" % (1 // 0))
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "m", "model") as draft:
        (draft / f"{1 // 0}").touch()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert (tmp_path / "m" / "0.txt").read_text() == "1"
    assert names(tmp_path) == ["a.txt", "m"]


def test_ctrl_c_between_the_two_renames_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "m", 1)
    real, calls = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "m", 2)
    assert (tmp_path / "m" / "0.txt").read_text() == "1"
    assert names(tmp_path) == ["m"]
    fill(tmp_path / "m", 2)
    assert (tmp_path / "m" / "0.txt").read_text() == "2"
    assert mark_of(tmp_path / "m") == "model"


def test_a_kill_between_the_two_renames_brings_the_old_folder_back(tmp_path: Path) -> None:
    old = tmp_path / f".m.{DEAD}.old{DRAFT}"
    old.mkdir()
    put_mark(old, "model")
    (tmp_path / f".m.{DEAD}{DRAFT}").mkdir()
    clear_drafts(tmp_path)
    assert names(tmp_path) == ["m"]
    assert mark_of(tmp_path / "m") == "model"


@pytest.mark.parametrize("name", [".", "..", "../here"])
def test_the_present_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError), new_folder(Path(name), "model"):
        raise AssertionError("nothing is to be written")


def test_kills_at_random_moments(tmp_path: Path) -> None:
    """File and folder hold the old or the new, never a part, and no draft outlives the next
    writing.
    """
    draw = random.Random(0)

    def work(number: int) -> None:
        for i in range(number * 1000, number * 1000 + 999):
            fill(tmp_path / "m", i)
            write_text(tmp_path / "a.txt", f"{i} " * 20_000)

    for number in range(15):
        assert code(fork(partial(work, number)), draw.uniform(0.005, 0.05)) == -signal.SIGKILL
        clear_drafts(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} <= {"m", "a.txt"}
        if (tmp_path / "m").exists():
            assert mark_of(tmp_path / "m") == "model"
            found = [path.read_text() for path in (tmp_path / "m").glob("*.txt")]
            assert (len(found), len(set(found))) == (20, 1)
        if (tmp_path / "a.txt").exists():
            assert len(set((tmp_path / "a.txt").read_text().split())) == 1


def test_drafts_of_living_processes_stay(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getppid()}{DRAFT}").touch()
    (tmp_path / f".a.{DEAD}{DRAFT}").touch()
    (tmp_path / f".a.b.{DEAD}{DRAFT}").touch()
    (tmp_path / f".key.vectors{DRAFT}").touch()  # a long pass goes on from it
    clear_drafts(tmp_path, "a")
    assert names(tmp_path) == sorted(
        [f".a.{os.getppid()}{DRAFT}", f".a.b.{DEAD}{DRAFT}", f".key.vectors{DRAFT}"]
    )


def marked(folder: Path, kind: str = "run") -> Path:
    folder.mkdir()
    put_mark(folder, kind)
    return folder


def test_a_new_and_an_empty_folder_are_taken_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        claim(folder, "run")
        assert mark_of(folder) == "run"
        (folder / "a.txt").touch()
        claim(folder, "run")


@pytest.mark.parametrize("name", [LOCK, MARK, f".a.1{DRAFT}"])
def test_what_a_kill_leaves_does_not_make_a_folder_somebodys(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    claim(tmp_path, "run")
    assert mark_of(tmp_path) == "run"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.touch(), "is a file"),
        (lambda path: path.symlink_to("."), "is a symbolic link"),
        (lambda path: (path.mkdir(), (path / "a").touch()), "is not empty and holds no run"),
        (
            lambda path: (path.mkdir(), (path / "a").touch(), (path / MARK).write_text("{")),
            "is not empty and holds no run",
        ),
        (lambda path: marked(path, "model"), "was made as model, not as run"),
    ],
)
def test_other_places_are_refused(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    make(tmp_path / "x")
    for refuse in (check_place, claim):
        with pytest.raises(UserError, match=why):
            refuse(tmp_path / "x", "run")


def test_a_mark_that_a_loss_of_power_emptied_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / MARK).touch()
    claim(tmp_path, "run")
    assert mark_of(tmp_path) == "run"


def test_a_damaged_mark_is_none(tmp_path: Path) -> None:
    for content in ("", "{", "[]", "{}", '{"kind": 1}', "\udcff"):
        (tmp_path / MARK).write_text(content, errors="surrogateescape")
        assert mark_of(tmp_path) is None


def test_ours_is_removed(tmp_path: Path) -> None:
    folder = marked(tmp_path / "m")
    (folder / "below" / "deep").mkdir(parents=True)
    (folder / "below" / "a.txt").touch()
    (tmp_path / f".f.1{DRAFT}").touch()
    (tmp_path / f".d.1{DRAFT}").mkdir()
    (tmp_path / f".l.1{DRAFT}").symlink_to(tmp_path)
    for path in [*tmp_path.iterdir(), tmp_path / "missing"]:
        remove(path)
    assert not list(tmp_path.iterdir())


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither those within a folder of ours, nor a link to such a folder."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    folder = marked(tmp_path / "m")
    (folder / "folder").symlink_to(tmp_path / "mine")
    (folder / "file").symlink_to(tmp_path / "mine" / "thesis.txt")
    (tmp_path / "link").symlink_to(folder)
    with refused("folder-is-not-ours"):
        remove(tmp_path / "link")
    remove(folder)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert not folder.exists()


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("file", "folder", "link", "dangling"):
        with refused("folder-is-not-ours", name):
            remove(tmp_path / name)
    assert names(tmp_path) == ["dangling", "file", "folder", "link"]


def test_what_a_kill_leaves_of_a_removed_folder_is_still_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every moment: the mark goes last."""
    folder, real, left = marked(tmp_path / "m"), os.unlink, list[int]()
    for i in range(4):
        (folder / f"{i}.txt").touch()

    def unlink(path: Path, **options: int) -> None:
        if not left:
            raise KeyboardInterrupt
        real(path, **options)
        left.pop()

    monkeypatch.setattr(os, "unlink", unlink)
    for _ in range(4):
        left.append(1)
        with pytest.raises(KeyboardInterrupt):
            remove(folder)
        assert mark_of(folder) == "run"
    left.append(1)
    remove(folder)
    assert not folder.exists()


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


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY])
def test_a_missing_right(tmp_path: Path, number: int) -> None:
    """Also where the folder itself is ours, and something in it is another user's, or a file system
    of its own.
    """
    expected = rf"{tmp_path} cannot be written to \(.*\): go elsewhere"
    with pytest.raises(UserError, match=expected), writing(tmp_path, elsewhere="go elsewhere"):
        raise failure(number, tmp_path / "a.txt")
    with pytest.raises(OSError, match="corpus"), writing(tmp_path):
        raise failure(number, tmp_path.parent / "corpus.txt")


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for path in ("a", "a/b", "link"):
        with (
            refused("not-writable", path),
            writing(tmp_path / path),
        ):
            raise AssertionError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]


def test_space_is_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2_000_000_000))
    check_space(tmp_path / "not" / "yet", 2_000_000_000, "the array")
    with refused("disk-full", "3,000.0 MB"):
        check_space(tmp_path / "not" / "yet", 3_000_000_000, "the array")
