"""A run's folder and its checkpoints: what is written is read, every damage is one line."""

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
from isotrope.store.cache import CONTENTS
from isotrope.store.job import Job
from isotrope.store.mark import claim
from isotrope.training.checkpoints import checkpoint_folder, checkpoint_step, keep_only, seal, whole_checkpoints
from isotrope.training.folder import read_cosines, write_cosines
from isotrope.training.page import dev_curves, loss_curves
from isotrope.training.processes import PACKAGES, environment
from small_runs import small_run


def test_two_trainings_in_one_folder_are_kept_apart(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    with Job(tmp_path / "run", "run", {}).held(), pytest.raises(UserError, match="run is in use by another process"):
        small_run(tiny_model, corpus_file, tmp_path / "run")
    assert not (tmp_path / "run").exists(), "no run has begun there"


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


def test_one_term_is_drawn_under_its_name_and_several_beside_the_loss() -> None:
    logged = {"grad_norm": 9.0, "learning_rate": 1e-5}
    one = {"step": 1, "loss": 0.5, "infonce": 0.5, **logged}
    assert loss_curves([one, {"step": 2, "score": 0.1, "pairs": 0.1}]) == {"infonce": ([1], [0.5])}
    two = {"step": 3, "loss": 0.9, "infonce": 0.5, "rank": 0.4, **logged}
    assert loss_curves([two]) == {"loss": ([3], [0.9]), "infonce": ([3], [0.5]), "rank": ([3], [0.4])}


def test_dev_scores_are_times_100_and_the_mean_is_drawn_where_there_are_several_sets() -> None:
    space = {"alignment": 0.3, "uniformity": -2.0}
    one = {"step": 2, "score": 0.25, "stsb": 0.25, **space}
    assert dev_curves([one, {"step": 3, "loss": 1.0}]) == {"score": ([2], [25.0])}
    two = {"step": 5, "score": 0.5, "stsb": 0.75, "sickr": 0.25, **space}
    assert dev_curves([two]) == {"mean": ([5], [50.0]), "stsb": ([5], [75.0]), "sickr": ([5], [25.0])}


def made(folder: Path, *steps: int) -> None:
    for step in steps:
        path = checkpoint_folder(folder, step)
        claim(path, "checkpoint")
        (path / "model.safetensors").write_bytes(b"weights")
        (path / "optimizer.pt").write_bytes(b"moments")
        seal(path)


def steps_of(paths: list[Path]) -> list[int]:
    return [checkpoint_step(path) for path in paths]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", CONTENTS])
@pytest.mark.parametrize("damage", ["shorter", "missing", "empty", "changed"])
def test_a_damaged_checkpoint_does_not_count_and_is_named(tmp_path, name, damage):
    made(tmp_path, 10, 20)
    path = tmp_path / "checkpoint-20" / name
    contents = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"shorter": contents[:-2], "empty": b"", "changed": b"x" + contents[1:]}[damage])
    said: list[str] = []
    assert steps_of(whole_checkpoints(tmp_path, said.append)) == [10]
    assert ["checkpoint-20" in line for line in said] == ([] if (name, damage) == (CONTENTS, "missing") else [True])


def test_a_foreign_checkpoint_is_refused_and_stays(tmp_path):
    made(tmp_path, 10)
    foreign = tmp_path / "checkpoint-20"
    foreign.mkdir()
    (foreign / "model.safetensors").write_bytes(b"somebody's")
    with pytest.raises(UserError, match="checkpoint-20"):
        whole_checkpoints(tmp_path)
    with pytest.raises(UserError, match="checkpoint-20"):
        keep_only(tmp_path, [])
    assert (foreign / "model.safetensors").read_bytes() == b"somebody's"
