"""SentEval's text state, byte for byte."""

import shutil
from pathlib import Path

import pytest

from isotrope.benchmark_data.prepare import prepare_data
from isotrope.benchmark_data.sources import check_data
from isotrope.errors import UserError
from isotrope.evaluation.sets.senteval import load_sts


def same(made: Path, given: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(
        path.name for path in given.iterdir()
    )
    for path in made.iterdir():
        assert path.read_bytes() == (given / path.name).read_bytes(), path.name


def test_prepare_gives_sentevals_bytes(data: Path, tmp_path: Path) -> None:
    official = tmp_path / "sts-raw" / "STS13-en-test"
    shutil.copytree(data / "sts-raw" / "STS13-en-test", official, copy_function=shutil.copyfile)
    assert check_data(tmp_path, ["STS13"])[0].state == "not prepared"
    made = prepare_data(tmp_path)
    assert made == [tmp_path / "senteval" / "downstream" / "STS" / "STS13-en-test"]
    same(made[0], data / "senteval" / "downstream" / "STS" / "STS13-en-test")
    assert check_data(tmp_path, ["STS13"])[0].state == "right"
    assert sum(map(len, load_sts(tmp_path, "STS13").values())) == 1500
    (official / "STS.gs.FNWN.txt").write_text("1.0\n" * 189)
    with pytest.raises(
        UserError, match=r"STS.gs.FNWN.txt: changed .*: run isotrope data fetch --only STS13"
    ):
        prepare_data(tmp_path)


@pytest.mark.slow
def test_prepare_gives_sentevals_bytes_for_all(data: Path, tmp_path: Path) -> None:
    made = prepare_data(data, tmp_path)
    assert len(made) == 7
    for folder in made:
        same(folder, data / folder.relative_to(tmp_path))


def test_nothing_to_prepare(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"holds no official files to prepare .*: run isotrope data fetch --only sts",
    ):
        prepare_data(tmp_path)
    with pytest.raises(UserError, match=r"readme.txt|STS.gs.FNWN.txt: missing"):
        prepare_data(tmp_path, names=["STS13"])
