"""A run's folder: one process at a time, what is written is read, every damage is one line."""

from __future__ import annotations

import getpass
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.preset.preset import read_preset
from isotrope.store.job import Job
from isotrope.training.environment import PACKAGES, environment
from isotrope.training.folder import RunFolder, read_cosines, write_cosines
from small_runs import small_run


def test_two_trainings_in_one_folder_are_kept_apart(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    with Job(tmp_path / "run", "run", {}).held(), pytest.raises(UserError, match="run is in use by another process"):
        small_run(tiny_model, corpus_file, tmp_path / "run")
    assert not (tmp_path / "run").exists(), "no run has begun there"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    preset, sample = read_preset("simcse"), ["one sentence", "another [/one]"]
    pairs = Pairs("p", ["a", "b"], ["c", "d"], np.array([1.0, 2.0]))
    job, folder = Job(tmp_path, "run", {"seed": 3}), RunFolder(tmp_path)
    with job.held():
        job.begin()
        folder.begin(preset, sample)
        folder.begin(preset, [])  # a call that goes on changes nothing
        folder.write_cosines("after", {"t": {"test": pairs}}, {"t": {"test": np.array([0.5, 0.25])}})
    assert folder.begun
    assert not folder.finished
    assert folder.identity() == {"seed": 3}
    assert folder.preset().toml() == preset.toml()
    assert folder.sample() == sample
    assert folder.environment()["packages"]["torch"]
    assert folder.metrics() == []
    assert folder.result() == {}
    assert folder.cosines("before") == {}
    gold, cosines = folder.cosines("after")["t"]["test"]
    assert gold.tolist() == [1, 2]
    assert cosines.tolist() == [0.5, 0.25]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_record_is_one_line(content: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in ("job.json", "result.json", "environment.json", "after.npz"):
        (folder.path / name).write_bytes(content)
    for read in (folder.identity, folder.result, folder.environment, lambda: folder.cosines("after")):
        with pytest.raises(UserError, match="damaged"):
            read()


def test_cosines_come_back_to_the_last_bit_and_every_damage_is_told(tmp_path: Path) -> None:
    """Each byte in turn: a wrong one is reported, or lies where it decides nothing."""
    path, drawn = tmp_path / "after.npz", np.random.default_rng(0)
    sets = {
        task: {part: Pairs(part, ["a"] * n, ["b"] * n, drawn.uniform(0, 5, n)) for part, n in parts.items()}
        for task, parts in {"STS12": {"MSRpar": 2, "OnWN": 2}, "<b>own pairs, ü": {"test": 2}}.items()
    }
    cosines = {task: {part: drawn.uniform(-1, 1, 2) for part in parts} for task, parts in sets.items()}
    write_cosines(path, sets, cosines)

    def same() -> bool:
        found = read_cosines(path)
        return found.keys() == sets.keys() and all(
            np.array_equal(found[task][part], (pairs.gold, cosines[task][part]))
            for task, parts in sets.items() for part, pairs in parts.items()
        )  # fmt: skip

    assert same()
    whole, told = path.read_bytes(), 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert same(), place
        except UserError as error:
            told += "after.npz is damaged: delete it" in str(error)
    assert told > len(whole) / 10


def test_the_environment_has_versions_and_nothing_of_the_machines_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "my-own-machine")
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    found = environment()
    assert found["packages"] == {package: version(package) for package in PACKAGES}
    assert found["threads"] == torch.get_num_threads()
    assert not [secret for secret in ("my-own-machine", "somebody", f"{Path.home()}/") if secret in json.dumps(found)]
