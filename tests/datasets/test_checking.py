"""What of the data in a folder is wrong."""

import os
import shutil
from pathlib import Path

import pytest

from isotrope.datasets.sources import check_data, fault
from web import TEXT, file_of


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


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "empty"), (TEXT[:99], "corrupt"), (TEXT.replace(b"7", b"8"), "changed"),
     (TEXT.replace(b"\n", b"\r\n"), "converted"), (None, "missing")],
)  # fmt: skip
def test_what_is_wrong(tmp_path: Path, content: bytes | None, kind: str) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    wrong = fault(tmp_path / "a.txt", file_of(TEXT))
    assert wrong
    assert wrong[0] == kind


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    assert fault(tmp_path / "a.txt", file_of(TEXT)) == ("unreadable", "not a file")
