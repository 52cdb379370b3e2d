"""Vectors behind a URL: the parts of a folder of this machine, whole after any stop, and nothing
else touched.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from fsspec import AbstractFileSystem

from helpers.hashes import Hashes
from helpers.refusals import refused
from isotrope.encoding.encode import encode
from isotrope.errors import UserError


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("isotrope.store.remote.WAITS", (0.0,))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": f"text {n}"}) + "\n" for n in range(250)))
    return path


def contents(memory: AbstractFileSystem) -> dict[str, bytes]:
    return {name.rpartition("/")[2]: memory.cat_file(name) for name in memory.find("/out")}


def test_the_parts_are_those_of_a_folder(
    rows: Path, memory: AbstractFileSystem, tmp_path: Path
) -> None:
    here = encode(Hashes(), rows, tmp_path / "out", shard=100, keep="id")
    assert encode(Hashes(), rows, "memory://out/", shard=100, keep="id") == "memory://out"
    assert contents(memory) == {
        path.name: path.read_bytes() for path in Path(here).iterdir() if path.name[0] != "."
    }
    assert len(contents(memory)) == 4
    again = Hashes()
    memory.put_file(str(rows), "/in/rows.jsonl")
    encode(again, "memory://in", "memory://out", shard=100, keep="id")
    assert again.calls <= 2, "only the first sentence, which shows the dimension"


def test_what_is_finished_is_known_on_every_machine(
    rows: Path, memory: AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what stands in the output: another machine has nothing else. A part that was lost is made
    again.
    """
    encode(Hashes(), rows, "memory://out", shard=100)
    before = contents(memory)
    for machine, lost in (("second", ""), ("third", "part-00001.parquet")):
        monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / machine))
        if lost:
            memory.rm(f"/out/{lost}")
        again = Hashes()
        assert encode(again, rows, "memory://out", shard=100) == "memory://out"
        assert again.calls == (101 if lost else 1), "the first sentence shows the dimension"
        assert contents(memory) == before
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "fourth"))
    with refused("begun-differently", "shard = 100, not 99"):
        encode(Hashes(), rows, "memory://out", shard=99)
    with refused("folder-is-not-ours"):
        encode(Hashes(), rows, "memory://out", shard=99, restart=True)
    memory.pipe_file("/out/_manifest.json", b"[1]")
    with refused("foreign-manifest"):
        encode(Hashes(), rows, "memory://out", shard=100)


def test_a_stopped_call_goes_on(
    rows: Path, memory: AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Hashes()

    def breaks(sentences: list[str]) -> np.ndarray:
        if first.calls + len(sentences) > 220:
            raise ConnectionError("the machine is gone")
        return Hashes.encode(first, sentences)

    monkeypatch.setattr(first, "encode", breaks)
    with pytest.raises(ConnectionError, match="the machine is gone"):
        encode(first, rows, "memory://out", shard=100)
    assert sorted(contents(memory)) == ["part-00000.parquet", "part-00001.parquet"]
    memory.rm("/out/part-00000.parquet")  # lost: made again
    rest = Hashes()
    encode(rest, rows, "memory://out", shard=100)
    assert rest.calls < 160
    here = Path(encode(Hashes(), rows, tmp_path / "out", shard=100))
    assert contents(memory) == {
        path.name: path.read_bytes() for path in here.iterdir() if path.name[0] != "."
    }


@pytest.mark.parametrize("restart", [True, False])
def test_what_another_has_written_stays(
    rows: Path, memory: AbstractFileSystem, restart: bool
) -> None:
    memory.pipe_file("/out/part-00000.parquet", b"another's")
    with refused("folder-is-not-ours"):
        encode(Hashes(), rows, "memory://out", restart=restart)
    assert contents(memory) == {"part-00000.parquet": b"another's"}


def test_other_rows_are_refused(rows: Path, memory: AbstractFileSystem, tmp_path: Path) -> None:
    encode(Hashes(), rows, "memory://out", shard=100)
    (tmp_path / "other.txt").write_text("one\n")
    with refused("begun-differently"):
        encode(Hashes(), tmp_path / "other.txt", "memory://out", shard=100)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (
            "memory://out/v.parquet",
            "output memory://out/v.parquet is a file: behind a URL only a folder grows safely: end it",
        ),
        (
            "https://host/out?key=secret",
            "output https://host/out is a web address, which cannot be written to",
        ),
        ("memory://in/out", "output memory://in/out lies in the input memory://in"),
    ],
)
def test_what_cannot_be_written(memory: AbstractFileSystem, output: str, problem: str) -> None:
    memory.pipe_file("/in/a.txt", b"one\n")
    with pytest.raises(UserError) as raised:
        encode(Hashes(), "memory://in", output)
    assert str(raised.value).startswith(problem)
