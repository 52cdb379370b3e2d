"""What can be made again: once, whole, checked before it is used."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.forks import code, fork
from helpers.refusals import refused
from isotrope.store import cache
from isotrope.store.cache import cache_folder, cached, is_whole, prune, remembered
from isotrope.store.files import CONTENTS, DRAFT, MARK, checksums, draft_path, mark_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path))
    return cache_folder("kind", "key")


def make(draft: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (draft / name).write_text("a" * 1000)


def never(draft: Path) -> None:
    raise AssertionError("it is there")


def test_it_is_made_once(folder: Path) -> None:
    assert cached(folder, make) == cached(folder, never) == folder
    assert mark_of(folder) == "cache"
    assert checksums(folder).keys() == {"a.txt", "b.txt"}


def damage(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "a.txt").unlink(),
        damage("a.txt", b"b" * 1000),
        damage("c.txt", b"one more"),
        damage(CONTENTS, b""),
        damage(CONTENTS, b"\xff"),
        lambda folder: (folder / CONTENTS).unlink(),
    ],
)
def test_a_damaged_one_counts_as_missing(folder: Path, spoil: Callable[[Path], object]) -> None:
    cached(folder, make)
    spoil(folder)
    assert not is_whole(folder)
    cached(folder, make)
    assert is_whole(folder)
    assert checksums(folder).keys() == {"a.txt", "b.txt"}


def test_another_users_cache_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there serves, though it may not be touched; what is not there cannot be made, and the
    line says so.
    """
    cached(folder, make)

    def denied(path: object, *_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "utime", denied)
    assert cached(folder, never) == folder
    monkeypatch.setattr(Path, "mkdir", denied)
    with refused("not-writable"):
        cached(folder.with_name("other"), make)


def test_two_processes_make_it_once(folder: Path, tmp_path: Path) -> None:
    def slowly(draft: Path) -> None:
        with (tmp_path / "asked").open("a") as file:
            file.write(".")
        time.sleep(0.2)
        make(draft)

    children = [fork(lambda: cached(folder, slowly)) for _ in range(3)]
    assert [code(child) for child in children] == [0, 0, 0]
    assert (tmp_path / "asked").read_text() == "."
    assert is_whole(folder)


def test_kills_at_random_moments_two_at_once(folder: Path) -> None:
    draw = random.Random(0)

    def slowly(draft: Path) -> None:
        for i in range(20):
            (draft / f"{i}.txt").write_text(str(i) * 1000)
            time.sleep(0.001)

    for number in range(9):
        if number % 3 == 2:
            (folder / "0.txt").write_text("damaged")  # so that it is replaced
        children = [fork(lambda: cached(folder, slowly)) for _ in range(2)]
        time.sleep(draw.uniform(0.005, 0.06))
        for child in children:
            os.kill(child, signal.SIGKILL)
        assert {code(child) for child in children} <= {0, -signal.SIGKILL}
        cached(folder, slowly)
        assert is_whole(folder)
        assert {path.name for path in folder.iterdir()} == {
            *(f"{i}.txt" for i in range(20)),
            MARK,
            CONTENTS,
        }
        assert not [path for path in folder.parent.iterdir() if path.name.endswith(DRAFT)]


def test_what_is_unused_goes_and_what_is_foreign_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("key", "used"):
        cached(folder.with_name(name), make)
    (folder.parent / "thesis").mkdir()
    (folder.parent / "mine.txt").touch()
    draft_path(folder.parent / "old").touch()
    later = time.time() + cache.UNUSED + 10
    monkeypatch.setattr(cache.time, "time", lambda: later)
    os.utime(folder.with_name("used"), (later, later))
    prune(folder.parent)
    assert {path.name for path in folder.parent.iterdir()} == {"thesis", "mine.txt", "used"}


def test_a_result_is_remembered(folder: Path) -> None:
    value = {"scores": (0.1 + 0.2, float("inf")), 3: None}
    for compute in (lambda: value, lambda: 1 / 0):
        found = remembered("results", {"model": "m"}, compute)
        assert found == {"scores": [0.1 + 0.2, float("inf")], "3": None}
    assert remembered("results", {"model": "n"}, lambda: 2) == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff"])
def test_a_damaged_result_counts_as_missing(folder: Path, tmp_path: Path, content: bytes) -> None:
    remembered("results", "key", lambda: 1)
    (path,) = (tmp_path / "results").iterdir()
    path.write_bytes(content)
    assert remembered("results", "key", lambda: 2) == 2
    assert remembered("results", "key", lambda: 3) == 2


def test_a_result_that_cannot_be_kept_stands(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the way")
    assert remembered("results", "key", lambda: 1) == 1
