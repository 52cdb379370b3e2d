"""Corpora in their cache: found again, whole or not at all, and what users do wrong."""

from __future__ import annotations

import gzip
import itertools
import lzma
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import ROOT
from corpora import COMPRESS, open_corpus, texts, write
from isotrope.errors import UserError
from isotrope.text.cleaning import Cleaning
from isotrope.text.corpus import Texts

DATA = Path(os.environ.get("ISOTROPE_DATA", ROOT.parent / "shared" / "data"))


def test_the_second_opening_reuses_the_first(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    calls: list[int] = []
    first = corpus(path, progress=calls.append)
    assert calls == [2]
    assert corpus(path, progress=calls.append).key == first.key
    assert calls == [2], "not read a second time"
    moved = path.rename(tmp_path / "elsewhere.txt")
    assert corpus(moved).key == first.key
    assert corpus(moved, cleaning=Cleaning(min_words=2)).key != first.key
    write(moved, "one a\ntwo c\n")
    assert corpus(moved).key != first.key
    assert texts(first) == ["one a", "two b"]


def _bad_inputs(folder: Path) -> dict[str, tuple[list[Any], dict[str, Any], str]]:
    """name → (paths, options, what the message must hold)."""

    def file(name: str, content: str | bytes) -> Path:
        return write(folder / name, content)

    good = file("good.txt", "one a\ntwo b\n")
    two_columns = file("two.csv", "a,b\nx1,y1\nx2,y2\n")
    random = np.random.default_rng(0).integers(128, 256, 5000, dtype=np.uint8).tobytes()
    pq.write_table(pa.table({"n": [1, 2], "t": ["ab", "cd"]}), folder / "n.parquet")
    (folder / "nothing").mkdir()
    cases: dict[str, tuple[list[Any], dict[str, Any], str]] = {
        "no path": ([], {}, "no corpus was named"),
        "missing": ([folder / "absent.txt"], {}, "absent.txt does not exist"),
        "empty": ([good, file("empty.txt", "")], {}, "empty.txt is empty"),
        "empty archive": ([file("e.txt.gz", gzip.compress(b""))], {}, "e.txt.gz is empty"),
        "empty folder": ([folder / "nothing"], {}, "holds no corpus file"),
        "unknown ending": ([file("c.docx", "abc")], {}, "unknown ending '.docx'"),
        "no ending": ([file("corpus", "abc")], {}, "unknown ending ''"),
        "parquet.gz": ([file("c.parquet.gz", "abc")], {}, "unknown ending '.parquet.gz'"),
        "NUL bytes": ([file("b.txt", b"\x7fELF\0\0\0\1")], {}, "b.txt is not text in UTF-8"),
        "UTF-16": ([file("u.txt", "some words".encode("utf-16"))], {}, "u.txt is not text in UTF-8"),
        "other bytes": ([file("r.txt", random)], {}, "r.txt is not text in UTF-8"),
        "gz that is none": ([file("no.txt.gz", "plain text")], {}, "no.txt.gz is truncated or broken"),
        "parquet that is none": ([file("no.parquet", "plain text")], {}, "not a readable Parquet file"),
        "bad JSON": ([file("a.jsonl", '{"t": "ab"}\n{"t": \n')], {}, "a.jsonl:2 is not valid JSON"),
        "deep JSON": ([file("deep.jsonl", "[" * 100_000)], {}, "deep.jsonl:1 is not valid JSON"),
        "JSON list": ([file("l.jsonl", '["ab"]\n')], {}, "l.jsonl:1 is not a JSON object"),
        "JSON number": ([file("n.jsonl", '{"t": "ab"}\n{"t": 5}\n')], {}, "n.jsonl:2: 't' holds int"),
        "JSON key gone": ([file("k.jsonl", '{"t": "ab"}\n{"u": "cd"}\n')], {}, "k.jsonl:2 has no 't' (columns: u)"),
        "short row": ([file("s.tsv", "a\ttext\n1\tab\n2\n")], {}, "s.tsv:3 has 1 columns, its header 2"),
        "open quote": ([file("q.csv", 'text\n"abc\n')], {}, "q.csv:2 cannot be read as a table"),
        "no text column": ([two_columns], {}, "no single text column (columns: a, b)"),
        "column missing": ([two_columns], {"text": "c"}, "no column 'c' (columns: a, b)"),
        "positive missing": ([two_columns], {"text": "a", "positive": "p"}, "no column 'p' (columns: a, b)"),
        "negatives alone": ([two_columns], {"text": "a", "negatives": ("b",)}, "no positive"),
        "column of numbers": ([folder / "n.parquet"], {"text": "n"}, "column 'n' of"),
        "positive in plain text": ([good], {"positive": "p"}, "good.txt is not a table, so it has no column 'p'"),
        "nothing left": ([file("blank.txt", "\n\n \n")], {}, "leaves no sentence (3 texts read, dropped: 3 blank)"),
        "code alone": ([file("code.md", "```\ncode\n```\n")], {}, "code.md: there is no text: give more: code, menus"),
        "one line": ([file("line.txt", "one line\n")], {}, "a single sentence (1 text read, dropped: none)"),
        "one sentence": (
            [file("one.txt", "same x\n" * 9)],
            {},
            "a single sentence (9 texts read, dropped: 8 duplicate)",
        ),
    }
    for compression in (".gz", ".xz", ".zst"):
        whole = COMPRESS[compression]("".join(f"sentence {i * i}\n" for i in range(40_000)).encode())
        path = file(f"cut.txt{compression}", whole[: len(whole) * 2 // 3])
        cases[f"truncated {compression}"] = ([path], {}, f"cut.txt{compression} is truncated or broken")
    flipped = bytearray(gzip.compress(os.urandom(3000).hex().encode()))
    flipped[1500] ^= 0xFF
    cases["damaged"] = ([file("flip.txt.gz", bytes(flipped))], {}, "flip.txt.gz is truncated or broken")
    return cases


def test_bad_inputs_are_named_and_leave_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name, (paths, options, problem) in _bad_inputs(tmp_path).items():
        with pytest.raises(UserError) as caught:
            open_corpus(paths, cache=cache, **options)
        assert problem in str(caught.value), name
        assert "\n" not in str(caught.value), name
        assert caught.value.remedy, name
        assert not cache.exists() or all(path.suffix == ".lock" for path in cache.iterdir()), name


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    for cache, problem in (
        (path, "is a file"),
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


def test_a_file_that_grows_while_it_is_read_is_not_kept_under_its_old_key(
    tmp_path: Path, corpus: Callable[..., Texts]
) -> None:
    """Otherwise the old file, if it came back, would silently be taken for the longer one."""
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")

    def grow(read: int) -> None:
        with path.open("a") as file:
            file.write("three c\n")

    with pytest.raises(UserError, match="changed while they were read"):
        corpus(path, progress=grow)
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
    reads = []
    corpus = open_corpus(sys.argv[1], cache=pathlib.Path(sys.argv[2]), progress=reads.append)
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


@pytest.mark.skipif(not (DATA / "wiki").is_dir(), reason="set ISOTROPE_DATA to the folder with the real data")
def test_real_wikipedia_sentences(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    with lzma.open(DATA / "wiki" / "wiki_train_00.txt.xz", "rt", encoding="utf-8") as file:
        sentences = list(itertools.islice(file, 20_000))
    opened = corpus(write(tmp_path / "head.txt.gz", gzip.compress("".join(sentences).encode())))
    assert len(opened) == 20_000
    assert opened.dataset[19_999] == {"text": sentences[-1].strip(), "label": 19_999}
    assert str(opened.report) == "20,000 texts read from 1 file, 20,000 kept, 0 dropped"
