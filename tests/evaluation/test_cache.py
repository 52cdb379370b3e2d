"""What is remembered of an evaluation, and what makes it another one."""

from pathlib import Path
from typing import Any

import pytest

from isotrope.evaluation import cache
from isotrope.evaluation.suite import SUITES


def test_a_result_is_computed_once(cached: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return {"a": {"accuracy": 0.25}}

    assert cache.remembered_result({"model": "m", "data": "1"}, compute) == cache.remembered_result(
        {"data": "1", "model": "m"}, compute
    )
    assert len(calls) == 1
    cache.remembered_result({"model": "m", "data": "2"}, compute)
    assert len(calls) == 2
    for kept in cached.rglob("*.json"):
        kept.write_text("{ damaged")
    assert cache.remembered_result({"model": "m", "data": "2"}, compute) == {"a": {"accuracy": 0.25}}
    assert len(calls) == 3


def test_other_code_is_another_result(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.remembered_result({"model": "m"}, lambda: {"version": 1}) == {"version": 1}
    monkeypatch.setattr(cache, "code_checksum", lambda: "another")
    assert cache.remembered_result({"model": "m"}, lambda: {"version": 2}) == {"version": 2}


def test_data_checksum_sees_bytes_and_names(tmp_path: Path) -> None:
    (tmp_path / "senteval").mkdir()
    (tmp_path / "senteval" / "a").write_text("1")
    (tmp_path / "domain").mkdir()
    first = cache.data_checksum(tmp_path, ("senteval",))
    (tmp_path / "domain" / "b").write_text("1")
    assert cache.data_checksum(tmp_path, ("senteval",)) == first  # another suite's data
    (tmp_path / "senteval" / "a").rename(tmp_path / "senteval" / "c")
    renamed = cache.data_checksum(tmp_path, ("senteval",))
    (tmp_path / "senteval" / "c").write_text("2")
    assert len({first, renamed, cache.data_checksum(tmp_path, ("senteval",))}) == 3


def test_a_folder_without_the_data_is_not_read(tmp_path: Path) -> None:
    """It may be somebody's whole disk; loading says what is missing."""
    (tmp_path / "mine").write_text("1")
    first = cache.data_checksum(tmp_path, ("domain",))
    (tmp_path / "mine").write_text("2")
    assert cache.data_checksum(tmp_path, ("domain",)) == first


@pytest.mark.parametrize("given", ["", "senteval", "senteval/downstream"])
def test_data_checksum_sees_the_data_from_wherever_they_are_named(tmp_path: Path, given: str) -> None:
    """The data folder may be SentEval's own, or what lies in it: a changed score is another result there too."""
    file = tmp_path / "senteval" / "downstream" / "STS" / "scores"
    file.parent.mkdir(parents=True)
    for suite in ("sts", "transfer", "ranking", "geometry"):
        seen = set()
        for content in ("1", "2"):
            file.write_text(content)
            seen.add(cache.data_checksum(tmp_path / given, SUITES[suite].folders))
        assert len(seen) == 2
