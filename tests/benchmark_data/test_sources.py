"""Every data set is stated in full, and what of it is missing is named. The command line has the
other faults.
"""

import re
import shutil
from pathlib import Path

import pytest

from helpers.paths import ROOT
from isotrope.benchmark_data.sources import check_data, choose, data_sources
from isotrope.errors import UserError
from isotrope.evaluation.sets.senteval import SPLITS, SUBSETS


def test_every_source_is_stated_in_full() -> None:
    assert len({source.name for source in data_sources()}) == len(data_sources()) == 20
    for source in data_sources():
        assert source.licence
        assert source.home.startswith("http")
        assert source.address.endswith("/")
        for file in (*source.files, *source.prepared):
            assert file.name == Path(file.name).name
            assert source.name == "wiki1m" or re.fullmatch("[0-9a-f]{64}", file.sha256 or "")
        if source.verified == "sha256":
            assert re.match(
                r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", source.address
            )
        official = {file.name for file in source.files}
        assert {file.at or file.name for file in source.prepared} <= official
    assert [source.name for source in data_sources() if source.verified == "rows only"] == [
        "wiki1m"
    ]


def test_the_page_states_every_source_and_loading_asserts_its_rows() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for source in data_sources():
        assert (
            f"| {source.name} | {source.title} | {source.rows.removesuffix(' scored pairs')}"
            in page
        )
        assert source.home in page
    rows = {
        source.name: [int(n) for n in re.findall(r"\d+", source.rows)] for source in data_sources()
    }
    asserted = {task: [sum(subsets.values())] for task, subsets in SUBSETS.items()}
    assert {
        **rows,
        **asserted,
        **{task: list(splits.values()) for task, splits in SPLITS.items()},
    } == rows


def test_choosing() -> None:
    assert {source.name for source in data_sources()} - {source.name for source in choose()} == {
        "wiki1m"
    }
    assert [source.name for source in choose(["mr", "CORPUS"])] == ["MR", "wiki1m"]
    assert choose(["all"]) == data_sources()
    with pytest.raises(
        UserError, match=r"no data set 'mrr': did you mean 'mr'. choose from sts, .*wiki1m or all"
    ):
        choose(["mrr"])


def test_check_of_what_is_not_there(data: Path, tmp_path: Path) -> None:
    found = {one.source.name: one for one in check_data(tmp_path)}
    assert (found["MR"].state, found["MR"].findings[0].kind, found["STS12"].state) == (
        "wrong",
        "missing",
        "wrong",
    )
    assert (found["SciFact"].state, found["SciFact"].findings) == ("not fetched", [])
    assert check_data(tmp_path, ["SciFact"])[0].state == "wrong"
    assert {one.state for one in check_data(data)} == {"right"}


def test_a_licence_may_be_missing(data: Path, tmp_path: Path) -> None:
    below = Path("senteval") / "downstream" / "SICK"
    shutil.copytree(data / below, tmp_path / below, ignore=shutil.ignore_patterns("readme*"))
    assert check_data(tmp_path, ["SICKRelatedness"])[0].state == "right"
