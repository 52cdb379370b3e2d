"""Checkpoints: whole by their checksums, deleted by their mark alone."""

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.store.mark import claim
from isotrope.training.checkpoints import SEAL, checkpoint_folder, checkpoint_step, keep_only, seal, whole_checkpoints


def made(folder: Path, *steps: int) -> None:
    for step in steps:
        path = checkpoint_folder(folder, step)
        claim(path, "checkpoint")
        (path / "model.safetensors").write_bytes(b"weights")
        (path / "optimizer.pt").write_bytes(b"moments")
        seal(path)


def steps_of(paths: list[Path]) -> list[int]:
    return [checkpoint_step(path) for path in paths]


def test_whole_checkpoints_come_in_the_order_of_their_steps(tmp_path):
    made(tmp_path, 100, 20, 3)
    assert steps_of(whole_checkpoints(tmp_path)) == [3, 20, 100]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", SEAL])
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
    assert ["checkpoint-20" in line for line in said] == ([] if (name, damage) == (SEAL, "missing") else [True])


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


def test_only_what_is_named_stays(tmp_path):
    made(tmp_path, 10, 20, 30)
    (tmp_path / "checkpoint-best").mkdir()  # no checkpoint's name
    keep_only(tmp_path, [tmp_path / "checkpoint-20"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-20", "checkpoint-best"]
