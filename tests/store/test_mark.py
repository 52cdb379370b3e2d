"""What carries our mark may be deleted; nothing else is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.store.mark import DRAFT, LOCK, MARK, check_place, claim, kind_of, put_mark, remove


def marked(folder: Path, kind: str = "run") -> Path:
    folder.mkdir()
    put_mark(folder, kind)
    return folder


def test_a_new_and_an_empty_folder_are_taken_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        claim(folder, "run")
        assert kind_of(folder) == "run"
        (folder / "a.txt").touch()
        claim(folder, "run")


@pytest.mark.parametrize("name", [LOCK, MARK, f".a.1{DRAFT}"])
def test_what_a_kill_leaves_does_not_make_a_folder_somebodys(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    claim(tmp_path, "run")
    assert kind_of(tmp_path) == "run"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.touch(), "is a file: choose a folder"),
        (lambda path: path.symlink_to("."), "is a symbolic link: name the folder itself"),
        (lambda path: (path.mkdir(), (path / "a").touch()), "is not empty and holds no run"),
        (lambda path: (path.mkdir(), (path / "a").touch(), (path / MARK).touch()), "is not empty and holds no run"),
        (lambda path: marked(path, "model"), "holds a model, not a run"),
    ],
)
def test_other_places_are_refused(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    make(tmp_path / "x")
    for refuse in (check_place, claim):
        with pytest.raises(UserError, match=why):
            refuse(tmp_path / "x", "run")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": 1}', "\udcff"])
def test_a_damaged_mark_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / MARK).write_text(content, errors="surrogateescape")
    assert kind_of(tmp_path) is None


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
    with pytest.raises(UserError, match="was not made by isotrope"):
        remove(tmp_path / "link")
    remove(folder)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["file", "folder", "link", "dangling"])
def test_what_is_not_ours_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(UserError, match=f"{name} was not made by isotrope"):
        remove(tmp_path / name)
    assert os.path.lexists(tmp_path / name)


def test_what_a_kill_leaves_of_a_removed_folder_is_still_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every moment: the mark goes last."""
    real = os.unlink
    for moment in range(4):
        folder = marked(tmp_path / str(moment))
        for i in range(4):
            (folder / f"{i}.txt").touch()
        left = [moment]

        def unlink(path: Path, left: list[int] = left, **options: int) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            real(path, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", unlink)
            with pytest.raises(KeyboardInterrupt):
                remove(folder)
        assert kind_of(folder) == "run"
        remove(folder)
        assert not folder.exists()
