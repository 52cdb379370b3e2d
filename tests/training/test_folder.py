"""A run's folder: whose it is, one process at a time, every damage one line."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.preset.preset import read_preset
from isotrope.training.folder import RunFolder
from isotrope.training.train import Run
from small_runs import small_run


def hold(path: Path, held: object, release: object) -> None:
    with RunFolder(path).hold():
        held.set()  # type: ignore[attr-defined]
        release.wait(60)  # type: ignore[attr-defined]


def test_two_trainings_in_one_folder_are_kept_apart(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    held, release = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(tmp_path / "run", held, release))
    other.start()
    try:
        assert held.wait(60)
        for resume in (False, True):
            with pytest.raises(UserError, match="run is in use by another process"):
                small_run(tiny_model, corpus_file, tmp_path / "run", resume=resume)
    finally:
        release.set()
        other.join()
    assert not (tmp_path / "run").exists(), "no run has begun there"


def test_a_folder_in_which_no_run_begins_is_left_as_it_was(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, tmp_path / "new"):
        with RunFolder(path).hold():
            assert (path / ".isotrope").is_file()
    assert not (tmp_path / "new").exists()
    assert not list(empty.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    preset, sample = read_preset("simcse"), ["one sentence", "another [/one]"]
    pairs = Pairs("p", ["a", "b"], ["c", "d"], np.array([1.0, 2.0]))
    with folder.hold():
        folder.begin({"seed": 3}, preset, sample)
        folder.begin({"seed": 4}, preset, [])  # a resume changes nothing
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


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_one_line(content: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.hold():
        folder.begin({}, read_preset("simcse"), [])
        for name in ("run.json", "result.json", "environment.json", "after.npz"):
            (folder.path / name).write_bytes(content)
    reading = (folder.identity, folder.result, folder.environment, lambda: folder.cosines("after"))
    for read in reading:
        with pytest.raises(UserError, match="damaged"):
            read()


def test_a_result_without_its_model_is_no_finished_run(finished: Run, tmp_path: Path) -> None:
    assert RunFolder(finished.folder).finished
    (tmp_path / "result.json").write_text("{}")
    assert not RunFolder(tmp_path).finished
