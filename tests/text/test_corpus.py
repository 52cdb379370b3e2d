"""Corpora in their cache: found again, whole or not at all, and what users do wrong."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem

from conftest import ROOT
from corpora import open_corpus, texts, write
from isotrope.errors import UserError
from isotrope.text.corpus import Texts
from isotrope.text.files import TextFile


def test_the_key_is_that_of_the_contents(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    first = corpus(path)
    moved = path.rename(tmp_path / "elsewhere.txt")
    assert corpus(moved).key == first.key
    assert corpus(moved, keep_duplicates=True).key != first.key
    write(moved, "one a\ntwo c\n")
    assert corpus(moved).key != first.key
    assert texts(first) == ["one a", "two b"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    for cache, problem in (
        (path, "cannot be written"),
        (path / "below", "cannot be written"),
        (Path("/proc/none"), "cannot be"),
    ):
        with pytest.raises(UserError, match=problem):
            open_corpus(path, cache=cache)


@pytest.mark.parametrize(
    ("name", "content"),
    [("corpus.arrow", b""), ("report.json", b"{}"), ("checksum.json", None), ("contents.json", b"")],
)
def test_a_damaged_cache_counts_as_missing(
    tmp_path: Path, corpus: Callable[..., Texts], name: str, content: bytes | None
) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    corpus(path)
    (folder,) = filter(Path.is_dir, (tmp_path / "cache").iterdir())
    (folder / name).unlink()
    if content is not None:
        write(folder / name, content)
    opened = corpus(path)
    assert texts(opened) == ["one a", "two b"]
    assert opened.report.kept == 2


def test_a_file_that_changes_while_it_is_read_is_not_kept_under_its_old_key(
    tmp_path: Path, corpus: Callable[..., Texts], memory: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
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

    for given in (path, "memory://a.txt"):
        with monkeypatch.context() as patch:
            patch.setattr(TextFile, "open", grow)
            with pytest.raises(UserError, match="changed while they were read"):
                corpus(given)
    assert [entry for entry in (tmp_path / "cache").iterdir() if entry.is_dir()] == []
    assert texts(corpus(path)) == ["one a", "two b", "three c"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_file_name_that_is_not_utf8(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    folder = tmp_path / os.fsdecode(b"Gr\xfc\xdfe")
    path = write(folder / "c.csv", "text\na good one\nx\nanother\n")
    opened = corpus(path)
    str(opened.report).encode()
    "".join(opened.report.files).encode()
    assert r"Gr\udcfc\udcdfe" in opened.report.files[0]
    assert r"Gr\udcfc\udcdfe" in opened.report.examples["too_short"][0]
    with pytest.raises(UserError, match="no column") as caught:
        corpus(path, text="sentence")
    str(caught.value).encode()
    pq.write_table(pa.table({"text": ["in a", "parquet file"]}), tmp_path / "c.parquet")
    assert len(corpus((tmp_path / "c.parquet").rename(folder / "c.parquet"))) == 2


def _python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits are POSIX")
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write fails in the same place, in the middle."""
    path = write(tmp_path / "c.txt", "".join(f"sentence number {i}\n" for i in range(50_000)))
    process = _python(
        """
        import resource, sys
        from corpora import open_corpus
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
        try:
            open_corpus(sys.argv[1], cache=__import__("pathlib").Path(sys.argv[2]))
        except Exception as error:
            print(type(error).__name__, error)
        """,
        path,
        tmp_path / "cache",
    )
    output, _ = process.communicate(timeout=60)
    assert f"UserError no space left to write {tmp_path / 'cache'}" in output
    assert all(entry.suffix == ".lock" for entry in (tmp_path / "cache").iterdir())


def test_killed_while_writing_then_opened_again(tmp_path: Path) -> None:
    """What a killed process left is never taken for a corpus, and the next one clears it away."""
    count = 150_000
    path = write(tmp_path / "c.txt", "".join(f"sentence number {i}\n" for i in range(count)))
    cache = tmp_path / "cache"
    code = "import pathlib, sys, corpora; corpora.open_corpus(sys.argv[1], cache=pathlib.Path(sys.argv[2]))"
    process = _python(code, path, cache)
    for _ in range(3000):
        if list(cache.glob(".*.isotrope-draft/.corpus.arrow.*")):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "killed in the middle"
    assert [entry.suffix for entry in cache.iterdir() if entry.is_dir()] == [".isotrope-draft"]
    opened = open_corpus(path, cache=cache)
    assert len(opened) == count
    assert [entry.suffix for entry in cache.iterdir() if entry.is_dir()] == [""]


def test_two_processes_open_the_same_corpus_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "".join(f"sentence number {i}\n" for i in range(30_000)))
    code = """
    import pathlib, sys
    from corpora import open_corpus
    from isotrope.text.files import TextFile
    reads, real = [], TextFile.open
    TextFile.open = lambda self, **how: (reads.append(self), real(self, **how))[1]
    corpus = open_corpus(sys.argv[1], cache=pathlib.Path(sys.argv[2]))
    print(len(corpus), bool(reads))
    """
    processes = [_python(code, path, tmp_path / "cache") for _ in range(2)]
    outputs = sorted(process.communicate(timeout=120)[0].strip() for process in processes)
    assert outputs == ["30000 False", "30000 True"], "one wrote, the other waited for it"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of resident memory is read from /proc")
def test_a_million_lines_cost_less_than_twenty_bytes_each(tmp_path: Path) -> None:
    process = _python(
        """
        import pathlib, sys
        from corpora import open_corpus
        folder = pathlib.Path(sys.argv[1])
        def peak():  # bytes; not getrusage, whose peak begins with that of the process that started this one
            status = pathlib.Path("/proc/self/status").read_text()
            return 1024 * int(status.split("VmHWM:")[1].split()[0])
        def lines(begin, end):
            with open(folder / f"{begin}.txt", "w") as file:
                file.writelines(f"this is the generated sentence of number {i}\\n" for i in range(begin, end))
            return folder / f"{begin}.txt"
        open_corpus(lines(0, 30_000), cache=folder / "cache")  # all that is imported and allocated once
        big = lines(30_000, 1_030_000)
        before = peak()
        corpus = open_corpus(big, cache=folder / "cache")
        print(len(corpus), peak() - before)
        """,
        tmp_path,
    )
    count, grown = process.communicate(timeout=300)[0].split()
    assert int(count) == 1_000_000
    assert 8 * 1_000_000 < int(grown) < 20 * 1_000_000, "the hashes alone are 8 bytes each"
