"""What of the data in a folder is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

from isotrope.datasets.checking import check_data


def test_check_of_what_is_not_there(data: Path, tmp_path: Path) -> None:
    states = {one.source.name: one for one in check_data(tmp_path)}
    assert states["MR"].state == states["STS12"].state == "wrong"
    assert states["MR"].findings[0].kind == "missing"
    assert states["SciFact"].state == "not fetched"
    assert not states["SciFact"].findings
    assert check_data(tmp_path, ["SciFact"])[0].state == "wrong"
    assert {one.state for one in check_data(data)} == {"right"}


def test_a_licence_may_be_missing(data: Path, tmp_path: Path) -> None:
    below = Path("senteval") / "downstream" / "SICK"
    shutil.copytree(data / below, tmp_path / below, ignore=shutil.ignore_patterns("readme*"))
    assert check_data(tmp_path, ["SICKRelatedness"])[0].state == "right"
