"""Files and folders that appear whole or not at all, also after a kill at any moment."""

import errno
import os
import random
import resource
import signal
from functools import partial
from pathlib import Path

import pytest

from forks import code, fork
from isotrope.errors import UserError
from isotrope.store.atomic import clear_drafts, draft_path, new_file, new_folder, write_text
from isotrope.store.mark import DRAFT, MARK, kind_of, put_mark

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


def fill(folder: Path, number: int, count: int = 20) -> None:
    with new_folder(folder, "model") as draft:
        for i in range(count):
            (draft / f"{i}.txt").write_text(str(number))


def test_a_folder_is_marked_and_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "m", 1)
    fill(tmp_path / "m", 2, count=3)
    assert kind_of(tmp_path / "m") == "model"
    assert names(tmp_path / "m") == [MARK, "0.txt", "1.txt", "2.txt"]
    assert names(tmp_path) == ["m"]


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


def test_a_kill_between_the_two_renames_brings_the_old_folder_back(tmp_path: Path) -> None:
    old = tmp_path / f".m.{DEAD}.old{DRAFT}"
    old.mkdir()
    put_mark(old, "model")
    (tmp_path / f".m.{DEAD}{DRAFT}").mkdir()
    clear_drafts(tmp_path)
    assert names(tmp_path) == ["m"]
    assert kind_of(tmp_path / "m") == "model"


@pytest.mark.parametrize("name", [".", "..", "../{}"])
def test_the_present_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError), new_folder(Path(name.format("here")), "model"):
        raise AssertionError("nothing is to be written")
    assert names(tmp_path) == ["here"]


def test_a_mount_point_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    (tmp_path / "m").mkdir()
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UserError, match=r"m cannot be replaced \(.*: name a folder below it"):
        fill(tmp_path / "m", 1)
    assert names(tmp_path) == ["m"]


def test_kills_at_random_moments(tmp_path: Path) -> None:
    """File and folder hold the old or the new, never a part, and no draft outlives the next writing."""
    draw, killed = random.Random(0), 0

    def work(number: int) -> None:
        for i in range(number * 1000, number * 1000 + 999):
            fill(tmp_path / "m", i)
            write_text(tmp_path / "a.txt", f"{i} " * 20_000)

    for number in range(15):
        killed += code(fork(partial(work, number)), draw.uniform(0.005, 0.05)) == -signal.SIGKILL
        clear_drafts(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} <= {"m", "a.txt"}
        if (tmp_path / "m").exists():
            assert kind_of(tmp_path / "m") == "model"
            assert len({path.read_text() for path in (tmp_path / "m").glob("*.txt")}) == 1
            assert len(list((tmp_path / "m").glob("*.txt"))) == 20
        if (tmp_path / "a.txt").exists():
            assert len(set((tmp_path / "a.txt").read_text().split())) == 1
    assert killed == 15


def test_drafts_of_living_processes_stay(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getppid()}{DRAFT}").touch()
    (tmp_path / f".a.{DEAD}{DRAFT}").touch()
    (tmp_path / f".a.b.{DEAD}{DRAFT}").touch()
    (tmp_path / f".key.vectors{DRAFT}").touch()  # a long pass goes on from it
    clear_drafts(tmp_path, "a")
    assert names(tmp_path) == sorted([f".a.{os.getppid()}{DRAFT}", f".a.b.{DEAD}{DRAFT}", f".key.vectors{DRAFT}"])
