"""Our own records: any damage is one clear line, and half a line is no line."""

import json
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.store.records import RecordLog, read_record


def test_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"scores": {"STS12": 0.5}, "step": 3}')
    assert read_record(tmp_path / "a.json", ["step"])["scores"] == {"STS12": 0.5}
    assert read_record(tmp_path / "a.json", {"step": int, "scores": dict})["step"] == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is missing"),
        (b"", "is damaged"),
        (b'{"step": ', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[1]", "is damaged: it holds no JSON object"),
        (b"{}", "is damaged: it lacks 'step'"),
        (b'{"step": "three"}', "is damaged: step is 'three'"),
    ],
)
def test_any_damage_is_one_line(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"a.json {why}.*: make it again") as error:
        read_record(path, {"step": int}, "make it again")
    assert "\n" not in str(error.value)


def test_a_log_grows_and_is_cut(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    for step in range(4):
        log.add({"step": step, "text": "a\u2028b\n"})
    assert RecordLog(tmp_path / "log.jsonl").records == log.records
    log.keep(log.records[:2])
    log.add({"step": 9})
    assert [record["step"] for record in RecordLog(tmp_path / "log.jsonl").records] == [0, 1, 9]


@pytest.mark.parametrize("tail", ['{"step": 1', '{"step": 1}', '"no record"\n{"step": 5}\n', "\udcff\n"])
def test_what_a_kill_cut_short_does_not_spoil_the_next_record(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 0}\n' + tail, errors="surrogateescape")
    log = RecordLog(path)
    log.add({"step": 2})
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [record["step"] for record in log.records]
    assert steps in ([0, 2], [0, 1, 2])


def test_who_does_not_write_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 0}\n{"st')
    log = RecordLog(path, writing=False)
    log.add({"step": 1})
    log.keep(log.records[:1])
    assert path.read_text() == '{"step": 0}\n{"st'
