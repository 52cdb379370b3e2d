"""What an output names, and the manifest that says which shards count."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from isotrope.encoding.output import OUTPUT_KIND, Manifest, OneArray, Parts, destination, held
from isotrope.errors import UserError
from isotrope.store.mark import kind_of


@pytest.mark.parametrize(
    ("name", "kind", "folder"),
    [
        ("v.npy", OneArray, "v.npy.parts"),
        ("v.parquet", Parts, "v.parquet.parts"),
        ("v", Parts, "v"),
        ("v.1/", Parts, "v.1"),
        ("v.npy/", Parts, "v.npy"),
        (os.fsdecode(b"na\xefve.npy"), OneArray, os.fsdecode(b"na\xefve.npy.parts")),
    ],
)
def test_outputs(tmp_path: Path, name: str, kind: type, folder: str) -> None:
    store = destination(f"{tmp_path}/{name}")
    assert type(store) is kind
    assert store.folder == tmp_path / folder
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "output is empty"),
        ("v.pt", "unknown ending '.pt'"),
        ("folder.npy", "folder.npy is a folder"),
        ("plain", "plain is a file"),
        ("link.npy", "link.npy is a symbolic link: name what it leads to"),
        ("link", "link is a symbolic link"),
        ("no/such/v.npy", "no/such of the output does not exist"),
    ],
)
def test_outputs_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain").touch()
    Path("link").symlink_to("folder.npy")
    Path("link.npy").symlink_to("elsewhere.npy")
    Path("folder.npy").mkdir()
    with pytest.raises(UserError, match=problem):
        destination(name)


def test_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 13, fault 15: it had no name to work with."""
    monkeypatch.chdir(tmp_path)
    for name in (".", "./"):
        assert destination(name).folder == Path()


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    assert Manifest.read(tmp_path) is None
    manifest = Manifest(7, 8, "a model", {"shard": 3}, done=6, shards=2)
    manifest.save(tmp_path)
    assert Manifest.read(tmp_path) == manifest


@pytest.mark.parametrize("damage", ["", "[]", "{}", {"done": "2"}, {"rows": None}, {"key": "other"}, {"made_from": {}}])
def test_a_damaged_manifest_is_one_line(tmp_path: Path, damage: str | dict[str, object]) -> None:
    Manifest(7, 8, "a model", {"shard": 3}).save(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(UserError, match=rf"manifest.json is damaged.*: delete {tmp_path} to start again"):
        Manifest.read(tmp_path)


def test_without_a_whole_shard_nothing_stays(tmp_path: Path) -> None:
    for name in ("v", "v.npy", "v.parquet"):
        store = destination(tmp_path / name)
        with held(store):
            assert kind_of(store.folder) == OUTPUT_KIND
            Manifest(7, 8, "a model", {}).save(store.folder)
        assert not list(tmp_path.iterdir())


def test_an_empty_folder_of_the_user_stays(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    with held(destination(tmp_path / "v")):
        pass
    assert (tmp_path / "v").is_dir()
