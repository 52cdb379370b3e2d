"""Corpora: files of every kind, here and behind URLs; what cleaning drops; found again in the
cache, or not at all.
"""

import io
import os
import subprocess
import sys
import textwrap
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem
from hypothesis import given
from hypothesis import strategies as st

from helpers.corpora import COMPRESS, SENTENCES, corpus, table, texts, write
from helpers.paths import ROOT
from helpers.refusals import refused
from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.errors import UserError
from isotrope.store.remote import RemoteFile
from isotrope.text import files
from isotrope.text.cleaning import Seen
from isotrope.text.files import TextFile, find_sources, lines, not_read


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
            with refused("text-changed"):
                corpus(place)
    assert not any(entry.is_dir() for entry in (cached / "corpora").iterdir())
    assert texts(corpus(path)) == ["one a", "two b", "three c"]


def test_reading_says_how_far_it_is(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        write(tmp_path / "pages" / name, f"A paragraph of {name}\n")
    table_file = tmp_path / "c.parquet"
    pq.write_table(pa.table({"text": SENTENCES}), table_file)
    with progress("worked", None, plain_console(file=io.StringIO())) as bar:
        corpus(tmp_path / "pages")
        assert bar.inner_work == "read 2 of 3 files"
        corpus(table_file)
        assert bar.inner_work == f"read 0 of {len(SENTENCES)} rows"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder, shown = tmp_path / os.fsdecode(b"Gr\xfc\xdfe"), r"Gr\udcfc\udcdfe"
    path = write(folder / "c.csv", "text\na good one\nx\nanother\n")
    report = corpus(path).report
    assert shown in report.files[0]
    assert shown in report.examples["too short"]
    with refused("no-such-column") as caught:
        corpus(path, text_column="sentence")
    assert shown in str(caught.value)
    pq.write_table(pa.table({"text": ["in a", "parquet file"]}), tmp_path / "c.parquet")
    assert len(corpus((tmp_path / "c.parquet").rename(folder / "c.parquet"))) == 2


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="the peak of resident memory is read from /proc"
)
def test_a_million_lines_cost_less_than_twenty_bytes_each(tmp_path: Path) -> None:
    code = """
        import pathlib, sys
        from helpers.corpora import corpus
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
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    count, grown = done.stdout.split()
    assert int(count) == 1_000_000
    assert 8 * 1_000_000 < int(grown) < 20 * 1_000_000, "the hashes alone are 8 bytes each"


def test_cleaning_says_what_it_dropped_and_where(tmp_path: Path) -> None:
    content = [
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
    path = write(tmp_path / "c.txt", b"\n".join(filler + content[1:]) + b"\n")
    head = write(tmp_path / "a.txt", content[0] + b"\n")
    report = corpus(head, path).report
    assert report.dropped == {
        "not UTF-8 text": 2,
        "blank": 1,
        "too short": 1,
        "too long": 1,
        "duplicate": 1,
    }
    assert (report.read, report.kept) == (6008, 6002)
    assert report.examples["not UTF-8 text"].startswith(f"{path}:6002 'Z")
    assert report.examples["duplicate"] == f"{path}:6004 'A good sentence.'"
    assert len(report.examples["too long"]) < len(str(path)) + 80
    assert str(report).splitlines()[0] == "6,008 texts read from 2 files, 6,002 kept, 6 dropped"
    assert len(str(report).splitlines()) == 6
    str(report).encode()  # printable, though it quotes what is not UTF-8
    assert len(corpus(head, path, keep_duplicates=True)) == 6003


@given(
    st.lists(
        st.lists(st.integers(0, 300) | st.integers(2**64 - 9, 2**64 - 1), max_size=50), max_size=20
    )
)
def test_seen_finds_first_occurrences_as_a_set_does(batches: list[list[int]]) -> None:
    seen, reference = Seen(), set[int]()
    for batch in batches:
        new = seen.add(np.array(batch, dtype=np.uint64))
        for value, is_new in zip(batch, new.tolist(), strict=True):
            assert is_new == (value not in reference)
            reference.add(value)


def test_a_folder_that_cannot_be_read_is_named_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the tests may read every folder, so its refusal is made."""
    write(tmp_path / "in/a.txt", "from a\n")
    (tmp_path / "in/secret").mkdir()
    real = os.scandir

    def scandir(path: Path | str) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"secret cannot be read .Permission denied."):
        find_sources([tmp_path / "in"])


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_all_streams_are_read_and_any_damage_is_an_error(tmp_path: Path, compression: str) -> None:
    """A second stream whose head is damaged must not end the file in silence, and half of the
    corpus with it.
    """
    first, second = (
        COMPRESS[compression]("".join(f"{w} {i}\n" for i in range(500)).encode())
        for w in ("one", "two")
    )
    path = tmp_path / f"c.txt{compression}"
    assert len(corpus(write(path, first + second))) == 1000
    damaged = {
        "head of the second stream": first + b"?" + second[1:],
        "last byte of the second stream": first + second[:-1] + b"?",
        "second stream cut": first + second[: len(second) // 2],
        "second stream cut in its head": first + second[:3],
        "garbage behind": first + second + b"garbage",
        "one byte behind": first + b"?",
    }
    for name, content in damaged.items():
        with pytest.raises(UserError, match="is truncated or broken"):
            raise AssertionError(f"{name}: {len(corpus(write(path, content)))} rows")
    if compression != ".zst":  # zeros between streams are padding
        assert len(corpus(write(path, first + bytes(8) + second + bytes(4)))) == 1000


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it does not fill the memory."""
    monkeypatch.setattr(files, "LONGEST_LINE", 100_000)
    (source,) = find_sources([write(tmp_path / "c.txt", f"a\n{'x' * 300_000}\nlast")])
    assert list(map(len, lines(source))) == [2, 100_001, 4]


def test_files_behind_a_url_are_those_of_this_machine(
    tmp_path: Path, memory: AbstractFileSystem
) -> None:
    """Every kind, in a folder and below it: the same order, rows, report and key."""
    for number, (extension, compression) in enumerate(
        product((".txt", ".jsonl", ".csv", ".tsv"), COMPRESS)
    ):
        content = table(extension, [f"{sentence} {number}" for sentence in SENTENCES])
        write(
            tmp_path / f"in/{number % 3}/c{number}{extension}{compression}",
            COMPRESS[compression](content),
        )
    pq.write_table(pa.table({"text": ["from parquet", "and more"]}), tmp_path / "in/a.parquet")
    write(tmp_path / "in/deep/er/b.html", "<p>From a page.")
    write(tmp_path / "in/p.png", "left out")
    write(tmp_path / "in/.git/config.txt", "left out")
    memory.put(str(tmp_path / "in"), "/in", recursive=True)
    here, there = corpus(tmp_path / "in"), corpus("memory://in")
    assert texts(there) == texts(here)
    numbered = [f"{sentence} {number}" for number in range(16) for sentence in SENTENCES]
    assert sorted(texts(here)) == sorted([*numbered, "from parquet", "and more", "From a page."])
    assert here.dataset["label"][:] == list(range(16 * 4 + 3))
    assert here.dataset.cache_files, "the data set lies in a file, not in memory"
    assert there.key == here.key
    for place, opened in (("memory://in", there), (tmp_path / "in", here)):
        assert opened.report.notes == (not_read([place]),) == ("files not read: 1 .png, 1 hidden",)
    assert [name.removeprefix("memory:///in") for name in there.report.files] == [
        name.removeprefix(str(tmp_path / "in")) for name in here.report.files
    ]
    starred = corpus("memory://in/1/c*z*")
    assert starred.key == corpus(*sorted((tmp_path / "in/1").glob("c*z*"))).key


def test_a_file_behind_a_url_is_read_once_until_it_changes(
    tmp_path: Path, memory: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = list[str](), RemoteFile.open
    monkeypatch.setattr(RemoteFile, "open", lambda file: opened.append(file.url) or real(file))
    memory.pipe_file("/a.txt", b"one text\ntwo text\n")
    keys = {corpus("memory://a.txt").key for _ in range(2)}
    assert opened == ["memory://a.txt"]
    memory.pipe_file("/a.txt", b"one text\nsix text\n")
    assert corpus("memory://a.txt").key not in keys


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        ([], "no text was named"),
        ([""], "no text was named"),
        (["absent.txt"], "absent.txt does not exist: check the path"),
        (["nothing"], "nothing holds no file of text: supported: .txt"),
        (["memory://in"], "memory://in holds no file of text: supported: .txt"),
    ],
)
def test_no_text_is_one_line(
    tmp_path: Path,
    memory: AbstractFileSystem,
    paths: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    memory.pipe_file("/in/a.png", b"x")
    with pytest.raises(UserError, match=f"^{problem}"):
        find_sources(paths)
