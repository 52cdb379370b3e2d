"""Corpora: which rows cleaning drops and what it reports; found again in the cache, whole or not at all."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from corpora import corpus, texts, write
from isotrope.errors import UserError
from isotrope.text.cleaning import Seen
from isotrope.text.files import TextFile


def test_the_key_is_that_of_the_contents(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    first = corpus(path)
    moved = path.rename(tmp_path / "elsewhere.txt")
    assert corpus(moved).key == first.key
    assert corpus(moved, keep_duplicates=True).key != first.key
    write(moved, "one a\ntwo c\n")
    assert corpus(moved).key != first.key
    assert texts(first) == ["one a", "two b"]


def test_a_file_that_changes_while_it_is_read_is_not_kept_under_its_old_key(
    tmp_path: Path, memory: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch, cached: Path
) -> None:
    """Otherwise the old file, if it came back, would silently be taken for the longer one."""
    path, real = write(tmp_path / "c.txt", "one a\ntwo b\n"), TextFile.open
    memory.pipe_file("/a.txt", b"one a\ntwo b\n")

    def grow(self: TextFile, **how: bool) -> object:
        stream = real(self, **how)
        with path.open("a") as file:
            file.write("three c\n")
        memory.pipe_file("/a.txt", b"three c\nfour d\n")
        return stream

    for place in (path, "memory://a.txt"):
        with monkeypatch.context() as patch:
            patch.setattr(TextFile, "open", grow)
            with pytest.raises(UserError, match="changed while they were read"):
                corpus(place)
    assert not any(entry.is_dir() for entry in (cached / "corpora").iterdir())
    assert texts(corpus(path)) == ["one a", "two b", "three c"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"Gr\xfc\xdfe")
    path = write(folder / "c.csv", "text\na good one\nx\nanother\n")
    opened = corpus(path)
    str(opened.report).encode()
    "".join(opened.report.files).encode()
    assert r"Gr\udcfc\udcdfe" in opened.report.files[0]
    assert r"Gr\udcfc\udcdfe" in opened.report.examples["too short"]
    with pytest.raises(UserError, match="no column") as caught:
        corpus(path, text="sentence")
    str(caught.value).encode()
    pq.write_table(pa.table({"text": ["in a", "parquet file"]}), tmp_path / "c.parquet")
    assert len(corpus((tmp_path / "c.parquet").rename(folder / "c.parquet"))) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of resident memory is read from /proc")
def test_a_million_lines_cost_less_than_twenty_bytes_each(tmp_path: Path) -> None:
    code = """
        import pathlib, sys
        from corpora import corpus
        folder = pathlib.Path(sys.argv[1])
        def peak():  # bytes; not getrusage, whose peak begins with that of the process that started this one
            status = pathlib.Path("/proc/self/status").read_text()
            return 1024 * int(status.split("VmHWM:")[1].split()[0])
        def lines(begin, end):
            with open(folder / f"{begin}.txt", "w") as file:
                file.writelines(f"this is the generated sentence of number {i}\\n" for i in range(begin, end))
            return folder / f"{begin}.txt"
        corpus(lines(0, 30_000))  # all that is imported and allocated once
        big = lines(30_000, 1_030_000)
        before = peak()
        print(len(corpus(big)), peak() - before)
        """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    count, grown = done.stdout.split()
    assert int(count) == 1_000_000
    assert 8 * 1_000_000 < int(grown) < 20 * 1_000_000, "the hashes alone are 8 bytes each"


def test_cleaning_says_what_it_dropped_and_where(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbfA good  sentence.\r",  # with a byte-order mark and a Windows line end
        b"  ",
        b"Z\xfcrich is not UTF-8",
        b"x",
        b"  A good\tsentence. ",
        b"y" * 10_001,
        b"with a \0 inside",
        b"Another good one",
    ]
    # the NUL must lie behind the part that is looked at to tell a binary file
    filler = [b"%05d filler line" % i for i in range(6000)]
    path = write(tmp_path / "c.txt", b"\n".join(filler + lines[1:]) + b"\n")
    head = write(tmp_path / "a.txt", lines[0] + b"\n")
    report = corpus(head, path).report
    assert report.dropped == {"not UTF-8 text": 2, "blank": 1, "too short": 1, "too long": 1, "duplicate": 1}
    assert (report.read, report.kept) == (6008, 6002)
    assert report.examples["not UTF-8 text"].startswith(f"{path}:6002 'Z")
    assert report.examples["duplicate"] == f"{path}:6004 'A good sentence.'"
    assert len(report.examples["too long"]) < len(str(path)) + 80
    assert str(report).splitlines()[0] == "6,008 texts read from 2 files, 6,002 kept, 6 dropped"
    assert len(str(report).splitlines()) == 6
    str(report).encode()  # printable, though it quotes what is not UTF-8


def test_duplicates_may_be_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "two words\ntwo words\nx\n")
    assert texts(corpus(path, keep_duplicates=True)) == ["two words", "two words"]


@given(st.lists(st.lists(st.integers(0, 300) | st.integers(2**64 - 9, 2**64 - 1), max_size=50), max_size=20))
def test_seen_finds_first_occurrences_as_a_set_does(batches: list[list[int]]) -> None:
    seen, reference = Seen(), set[int]()
    for batch in batches:
        new = seen.add(np.array(batch, dtype=np.uint64))
        for value, is_new in zip(batch, new.tolist(), strict=True):
            assert is_new == (value not in reference)
            reference.add(value)
