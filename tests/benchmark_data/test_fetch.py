"""From the web to a verified folder."""

import random
import resource
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.forks import code, fork
from helpers.refusals import refused
from helpers.web import HOME, TEXT, Web, tarred, zipped
from isotrope.benchmark_data.fetch import fetch_data
from isotrope.benchmark_data.sources import DataSource, check_data
from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.errors import UserError
from isotrope.store.job import alone


@pytest.fixture(autouse=True)
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.benchmark_data.fetch.RETRIES", 0)


@pytest.mark.parametrize("official", [False, True])
def test_fetch_and_fetch_again(
    web: Web, source: DataSource, tmp_path: Path, official: bool
) -> None:
    said: list[str] = []
    fetch_data(tmp_path, official=official, say=said.append)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["a.txt", "b.txt"]
    assert [path for path, _ in web.asked] == (
        ["/all.zip"] if official else ["/at/a.txt", "/at/b.txt"]
    )
    (tmp_path / "one" / "b.txt").write_bytes(b"spoilt")
    with progress("downloaded", None, plain_console(quiet=True), unit="bytes") as bar:
        fetch_data(tmp_path, say=said.append, bar=bar)
        assert bar.done == bar.total == 8
    fetch_data(tmp_path, say=said.append)
    assert web.asked[-1] == ("/at/b.txt", None)
    assert said == [f"One: 9002 lines; licence: none; {HOME}"] * 2 + ["One: there already"]
    assert check_data(tmp_path)[0].state == "right"


def test_fetch_from_a_mirror(web: Web, source: DataSource, tmp_path: Path) -> None:
    web.pages |= {"/copy/one/a.txt": TEXT, "/copy/one/b.txt": b"one\ntwo\n"}
    fetch_data(tmp_path, mirror=f"{web.base}/copy/")
    assert [path for path, _ in web.asked] == ["/copy/one/a.txt", "/copy/one/b.txt"]


def test_fetch_on_a_full_disk_and_on(web: Web, source: DataSource, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with refused("disk-full"):
            fetch_data(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fetch_data(tmp_path)
    assert (tmp_path / "one" / "a.txt").read_bytes() == TEXT


def test_a_broken_connection_is_tried_again(
    web: Web, source: DataSource, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("isotrope.benchmark_data.fetch.RETRIES", 1)
    web.cut = 99
    monkeypatch.setattr("time.sleep", lambda seconds: seconds and setattr(web, "cut", None))
    fetch_data(tmp_path)
    assert [path for path, _ in web.asked] == ["/at/a.txt", "/at/a.txt", "/at/b.txt"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(404, "404"), ("http://[::1", "Invalid"), (TEXT * 2, "hash"), ("pause", "timed out")],
)
def test_what_a_server_does_is_one_line(
    web: Web,
    source: DataSource,
    tmp_path: Path,
    answer: Any,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotrope.benchmark_data.fetch.TIMEOUT", 0.2)
    if answer == "pause":  # it stalls in the middle of its answer
        web.pause = 0.5
    else:
        web.pages["/at/a.txt"] = answer
    with pytest.raises(
        UserError, match=rf"a\.txt cannot be fetched \(.*{words}.*; or get it from {HOME}"
    ) as error:
        fetch_data(tmp_path)
    assert "\n" not in str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]


BOTH = {"in/a.txt": TEXT, "in/b.txt": b"one\ntwo\n"}


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (tarred(BOTH), None),
        (
            zipped({"in/a.txt": TEXT}),
            r"b\.txt in .*all\.zip is not .*missing.*: run the command without --official",
        ),
        (
            zipped({**BOTH, "in/a.txt": TEXT.replace(b"7", b"8")}),
            "a.txt in .* is not the file expected",
        ),
        # its files stay in the folder
        (zipped({"../in/a.txt": TEXT, "/b.txt": b"one\ntwo\n"}), None),
        (zipped(BOTH)[:-30], "cannot be unpacked"),
        (tarred({"../../a.txt": TEXT}), "cannot be unpacked"),
        (tarred({"a.txt": b""}, tarfile.SYMTYPE, "/etc/passwd"), "cannot be unpacked"),
    ],
    ids=[
        "tar",
        "lacks a file",
        "another file",
        "zip that leads out",
        "cut",
        "tar that leads out",
        "link",
    ],
)
def test_archives(
    web: Web, source: DataSource, tmp_path: Path, archive: bytes, words: str | None
) -> None:
    """Nothing is written outside the folder, and nothing that is not the file expected."""
    web.pages["/all.zip"] = archive
    if words is None:
        fetch_data(tmp_path / "d", official=True)
        assert (tmp_path / "d" / "one" / "a.txt").read_bytes() == TEXT
    else:
        with pytest.raises(UserError, match=words):
            fetch_data(tmp_path / "d", official=True)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {
        "a.txt",
        "b.txt",
        ".lock",
    }


def test_one_process_at_a_time(web: Web, source: DataSource, tmp_path: Path) -> None:
    with alone(tmp_path), refused("folder-in-use"):
        fetch_data(tmp_path)
    fetch_data(tmp_path)
    with alone(tmp_path):
        fetch_data(tmp_path)  # all is there: nothing is written


def test_kills_at_random_moments(web: Web, source: DataSource, tmp_path: Path) -> None:
    """Only a whole file takes its place."""
    draw = random.Random(0)
    web.pause = 0.0005
    for official in (False, True):
        folder = tmp_path / str(official)
        code(fork(partial(fetch_data, folder, official=official)), draw.uniform(0.05, 0.4))
        if (folder / "one" / "a.txt").exists():
            assert (folder / "one" / "a.txt").read_bytes() == TEXT
        fetch_data(folder)
        # A kill after the last file may leave the draft, which the next download removes.
        whole = [path.name for path in (folder / "one").iterdir() if not path.name.startswith(".")]
        assert sorted(whole) == ["a.txt", "b.txt"]
        assert check_data(folder)[0].state == "right"
