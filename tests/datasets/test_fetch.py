"""From the web to a verified folder."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.datasets.checking import check_data
from isotrope.datasets.fetch import fetch_data
from isotrope.datasets.sources import DataSource
from isotrope.errors import UserError
from isotrope.store.atomic import move, part_path
from isotrope.store.lock import alone
from web import HOME, TEXT, Web, zipped


@pytest.mark.parametrize("official", [False, True])
def test_fetch_and_fetch_again(web: Web, source: DataSource, tmp_path: Path, official: bool) -> None:
    said: list[str] = []
    fetch_data(tmp_path, official=official, say=said.append)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["a.txt", "b.txt"]
    assert [path for path, _ in web.asked] == (["/all.zip"] if official else ["/at/a.txt", "/at/b.txt"])
    (tmp_path / "one" / "b.txt").write_bytes(b"spoilt")
    fetch_data(tmp_path, say=said.append)
    fetch_data(tmp_path, say=said.append)
    assert web.asked[-1] == ("/at/b.txt", None)
    assert said == [f"One: 9002 lines; licence: none; {HOME}"] * 2 + ["One: there already"]
    assert check_data(tmp_path)[0].state == "right"


def test_fetch_from_a_mirror(web: Web, source: DataSource, tmp_path: Path) -> None:
    web.pages |= {"/copy/one/a.txt": TEXT, "/copy/one/b.txt": b"one\ntwo\n"}
    fetch_data(tmp_path, mirror=f"{web.base}/copy/")
    assert [path for path, _ in web.asked] == ["/copy/one/a.txt", "/copy/one/b.txt"]


def test_the_official_archive_lacks_a_file(web: Web, source: DataSource, tmp_path: Path) -> None:
    web.pages["/all.zip"] = zipped({"a.txt": TEXT})
    with pytest.raises(UserError, match=r"all.zip: without b.txt: run the command without --official"):
        fetch_data(tmp_path, official=True)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["a.txt"]


def test_fetch_on_a_full_disk_and_on(web: Web, source: DataSource, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(
            UserError, match=f"no space left to write {tmp_path}: free some, then run the command again"
        ):
            fetch_data(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fetch_data(tmp_path)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT
    assert web.asked[1] == ("/at/a.txt", f"bytes={1 << 16}-")


def test_an_archive_of_the_user_stays(web: Web, source: DataSource, tmp_path: Path) -> None:
    """The official archive lies in a draft of ours: a file of its name is somebody's."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "all.zip").write_text("mine")
    (tmp_path / "one" / "a.txt.part").write_text("mine")
    fetch_data(tmp_path, official=True)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["a.txt", "a.txt.part", "all.zip", "b.txt"]
    assert (tmp_path / "one" / "all.zip").read_text() == "mine"


def test_one_process_at_a_time(web: Web, source: DataSource, tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(UserError, match="is in use by another process"):
        fetch_data(tmp_path)
    fetch_data(tmp_path)
    with alone(tmp_path):
        fetch_data(tmp_path)  # all is there: nothing is written


def test_the_bar_knows_its_total(web: Web, source: DataSource, tmp_path: Path) -> None:
    part_path(tmp_path / "a.txt").write_bytes(TEXT[:1000])
    (tmp_path / "one").mkdir()
    move(part_path(tmp_path / "a.txt"), part_path(tmp_path / "one" / "a.txt"))
    with progress("downloaded", None, plain_console(quiet=True), unit="bytes") as bar:
        fetch_data(tmp_path, bar=bar)
    assert bar.done == bar.total == len(TEXT) + 8


def test_kills_at_random_moments(web: Web, source: DataSource, tmp_path: Path) -> None:
    """Issue 13: what has arrived is gone on with, and only a whole file takes its place."""
    draw, ranges = random.Random(0), set()
    web.pause = 0.0005
    for number in range(6):
        folder = tmp_path / str(number)
        child = os.fork()
        if not child:
            try:
                fetch_data(folder, official=number % 2 == 1)
            except BaseException:
                os._exit(1)
            os._exit(0)
        time.sleep(draw.uniform(0.05, 0.8))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (folder / "one" / "a.txt").exists():
            assert (folder / "one" / "a.txt").read_bytes() == TEXT
        web.asked.clear()
        fetch_data(folder)
        ranges |= {wanted for _, wanted in web.asked}
        assert sorted(path.name for path in (folder / "one").iterdir()) == ["a.txt", "b.txt"]
        assert check_data(folder)[0].state == "right"
    assert len(ranges) > 2  # some went on from where they were
