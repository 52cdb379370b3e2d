"""Corpora from real files: formats, compressions, cleaning and its report, the cache, and what users do wrong."""

from __future__ import annotations

import gzip
import itertools
import json
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
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from isotrope.errors import UserError
from isotrope.text.cleaning import Cleaning, CleaningReport, Seen, fold
from isotrope.text.corpus import Corpus, open_corpus

DATA = Path(os.environ.get("ISOTROPE_DATA", ROOT.parent / "shared" / "data"))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
SENTENCES = ["The first one.", "Größe und Maß, 日本語.", 'She said "no".', "A last sentence"]


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., Corpus]:
    """open_corpus with a cache beside the test's files."""
    return lambda *paths, **options: open_corpus(paths, cache=tmp_path / "cache", **options)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(corpus: Corpus) -> list[str]:
    return list(corpus.dataset["text"])


def table(extension: str, sentences: list[str]) -> bytes:
    if extension == ".jsonl":
        return "".join(json.dumps({"id": 1, "text": s}) + "\n" for s in sentences).encode()
    if extension == ".csv":
        quoted = (s.replace('"', '""') for s in sentences)
        return ("id,text\n" + "".join(f'1,"{s}"\n' for s in quoted)).encode()
    if extension == ".tsv":
        return ("id\ttext\n" + "".join(f"1\t{s}\n" for s in sentences)).encode()
    return "".join(s + "\n" for s in sentences).encode()


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("extension", [".txt", ".jsonl", ".csv", ".tsv"])
def test_every_format_and_compression_gives_the_same_rows(
    tmp_path: Path, corpus: Callable[..., Corpus], extension: str, compression: str
) -> None:
    path = write(tmp_path / f"c{extension}{compression}", COMPRESS[compression](table(extension, SENTENCES)))
    opened = corpus(path)
    assert texts(opened) == SENTENCES
    assert opened.dataset["label"][:] == [0, 1, 2, 3]
    assert (opened.columns, len(opened), opened.report.kept) == (("text",), 4, 4)
    assert opened.dataset.cache_files, "the data set lies in a file, not in memory"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_with_every_kind_of_string(tmp_path: Path, corpus: Callable[..., Corpus], kind: pa.DataType) -> None:
    column = pa.array([*SENTENCES, None]).cast(kind)
    pq.write_table(pa.table({"n": range(5), "body": column}), tmp_path / "c.parquet", row_group_size=2)
    opened = corpus(tmp_path / "c.parquet")
    assert texts(opened) == SENTENCES
    assert opened.report.dropped["blank"] == 1


@given(sentences=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_any_text_comes_through_every_table(tmp_path: Path, sentences: list[str]) -> None:
    """Round trip through formats that can hold any text: what is kept is what a plain loop over the list keeps."""
    sentences += ["ab", "cd"]
    expected = [s for s in dict.fromkeys(fold((s,))[0] for s in sentences) if len(s) >= 2]
    write(tmp_path / "a.jsonl", table(".jsonl", sentences))
    write(tmp_path / "a.csv", table(".csv", sentences))
    pq.write_table(pa.table({"text": sentences}), tmp_path / "a.parquet")
    for extension in (".jsonl", ".csv", ".parquet"):
        opened = open_corpus(tmp_path / f"a{extension}", cache=tmp_path / "cache")
        assert texts(opened) == expected
        assert opened.report.read == len(sentences)


def test_folders_and_files_mix_and_are_read_in_order(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    write(tmp_path / "in/b.txt", "from b\n")
    write(tmp_path / "in/a/z.tsv", "sentence\tn\nfrom z\t1\n")
    write(tmp_path / "in/notes.md", "not read")
    write(tmp_path / "in/.hidden.txt", "not read")
    single = write(tmp_path / "first.jsonl", '{"x": "from first"}\n')
    opened = corpus(single, tmp_path / "in")
    assert texts(opened) == ["from first", "from z", "from b"]
    assert len(opened.report.files) == 3


def test_positive_and_negatives(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    write(
        tmp_path / "c.csv", "q,pos,n1,n2\nquery one,pos one,neg a,neg b\nquery two,pos two,neg c,\nquery 3,p 3,x1,x2\n"
    )
    opened = corpus(tmp_path / "c.csv", positive="pos", negatives=("n1", "n2"))
    assert opened.columns == ("text", "positive", "negative_0", "negative_1")
    assert opened.dataset.column_names == [*opened.columns, "label"]
    first = {"text": "query one", "positive": "pos one", "negative_0": "neg a", "negative_1": "neg b", "label": 0}
    assert opened.dataset[0] == first
    assert opened.report.dropped["blank"] == 1
    assert corpus(tmp_path / "c.csv", text="n1").dataset[1]["text"] == "neg c"


def test_cleaning_says_what_it_dropped_and_where(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    lines = [
        b"\xef\xbb\xbfA good  sentence.\r",  # with a byte-order mark and a Windows line end
        b"  ",
        b"Z\xfcrich is not UTF-8",
        b"x",
        b"  A good\tsentence. ",
        b"y" * 101,
        b"with a \0 inside",
        b"Another good one",
    ]
    # the NUL must lie behind the part that is looked at to tell a binary file
    filler = [b"%05d filler line" % i for i in range(6000)]
    path = write(tmp_path / "c.txt", b"\n".join(filler + lines[1:]) + b"\n")
    head = write(tmp_path / "a.txt", lines[0] + b"\n")
    report = corpus(head, path, cleaning=Cleaning(max_chars=100)).report
    assert report.dropped == {"undecodable": 2, "blank": 1, "too_short": 1, "too_long": 1, "duplicate": 1}
    assert (report.read, report.kept) == (6008, 6002)
    assert report.examples["undecodable"][0].startswith(f"{path}:6002 'Z")
    assert report.examples["duplicate"] == (f"{path}:6004 'A good sentence.'",)
    assert len(report.examples["too_long"][0]) < len(str(path)) + 80
    assert str(report).splitlines()[0] == "6,008 lines read from 2 files, 6,002 kept, 6 dropped"
    assert len(str(report).splitlines()) == 6
    str(report).encode()  # printable, though it quotes what is not UTF-8
    assert CleaningReport.from_json(report.to_json()) == report


def test_cleaning_options(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    path = write(tmp_path / "c.txt", "one\ntwo words\ntwo words\nand three words\n")
    assert texts(corpus(path, cleaning=Cleaning(min_words=2, dedupe=False))) == [
        "two words",
        "two words",
        "and three words",
    ]
    assert (
        texts(corpus(path, cleaning=Cleaning(min_chars=4, max_chars=10, min_words=1, dedupe=False)))
        == ["two words"] * 2
    )
    for options in ({"min_chars": 0}, {"max_chars": 10**9}, {"min_chars": 50, "max_chars": 40}, {"min_words": -1}):
        with pytest.raises(UserError, match="cleaning: m"):
            Cleaning(**options)


@given(st.lists(st.lists(st.integers(0, 300) | st.integers(2**64 - 9, 2**64 - 1), max_size=50), max_size=20))
def test_seen_finds_first_occurrences_as_a_set_does(batches: list[list[int]]) -> None:
    seen, reference = Seen(), set[int]()
    for batch in batches:
        new = seen.add(np.array(batch, dtype=np.uint64))
        for value, is_new in zip(batch, new.tolist(), strict=True):
            assert is_new == (value not in reference)
            reference.add(value)
    assert len(seen) == len(reference)


def test_quotes_in_tables(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    """A quotation mark is text in a .tsv; in a .csv it may enclose a line end, and lines are still counted from 1."""
    assert texts(corpus(write(tmp_path / "a.tsv", 'text\n"open quote\nplain line\n'))) == ['"open quote', "plain line"]
    path = write(tmp_path / "a.csv", 'text,n\n"two\nlines",1\n\nshort\n')
    with pytest.raises(UserError, match=r"a\.csv:5 has 1 columns, its header 2"):
        corpus(path)


def test_many_zstd_frames_are_read_to_the_end(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    frames = b"".join(COMPRESS[".zst"](f"sentence {i}\n".encode() * 3000) for i in range(50))
    assert texts(corpus(write(tmp_path / "c.txt.zst", frames))) == [f"sentence {i}" for i in range(50)]


def test_the_second_opening_reuses_the_first(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    calls: list[int] = []
    first = corpus(path, progress=calls.append)
    assert calls == [2]
    moved = path.rename(tmp_path / "elsewhere.txt")
    assert corpus(moved, progress=calls.append).key == first.key
    assert calls == [2], "not read a second time"
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
        "positive in plain text": ([good], {"positive": "p"}, "good.txt is plain text"),
        "nothing left": ([file("blank.txt", "\n\n \n")], {}, "leaves no sentence (3 lines read, dropped: 3 blank)"),
        "one sentence": (
            [file("one.txt", "same x\n" * 9)],
            {},
            "a single sentence (9 lines read, dropped: 8 duplicate)",
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
    for cache in (path, path / "below", Path("/proc/none")):
        with pytest.raises(UserError, match=r"cannot be written.*name another folder"):
            open_corpus(path, cache=cache)


def test_a_damaged_cache_is_named(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    path = write(tmp_path / "c.txt", "one a\ntwo b\n")
    folder = tmp_path / "cache" / corpus(path).key
    write(folder / "corpus.arrow", b"")
    with pytest.raises(UserError, match=r"is damaged .*delete that folder"):
        corpus(path)


def _python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
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
        from isotrope.text.corpus import open_corpus
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
    assert f"UserError no space left for the corpus in {tmp_path / 'cache'}" in output
    assert all(entry.suffix == ".lock" for entry in (tmp_path / "cache").iterdir())


def test_killed_while_writing_then_opened_again(tmp_path: Path) -> None:
    """What a killed process left is never taken for a corpus, and the next one clears it away."""
    count = 400_000
    path = write(tmp_path / "c.txt", "".join(f"sentence number {i}\n" for i in range(count)))
    cache = tmp_path / "cache"
    code = "import pathlib, sys, isotrope.text.corpus as c; c.open_corpus(sys.argv[1], cache=pathlib.Path(sys.argv[2]))"
    process = _python(code, path, cache)
    for _ in range(3000):
        if list(cache.glob(".*.part/corpus.arrow")):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "killed in the middle"
    assert [entry.suffix for entry in cache.iterdir() if entry.is_dir()] == [".part"]
    opened = open_corpus(path, cache=cache)
    assert len(opened) == count
    assert [entry.name for entry in cache.iterdir() if entry.is_dir()] == [opened.key]


def test_two_processes_open_the_same_corpus_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "".join(f"sentence number {i}\n" for i in range(30_000)))
    code = """
    import pathlib, sys
    from isotrope.text.corpus import open_corpus
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
        from isotrope.text.corpus import open_corpus
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
def test_real_wikipedia_sentences(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    with lzma.open(DATA / "wiki" / "wiki_train_00.txt.xz", "rt", encoding="utf-8") as file:
        sentences = list(itertools.islice(file, 20_000))
    opened = corpus(write(tmp_path / "head.txt.gz", gzip.compress("".join(sentences).encode())))
    assert len(opened) == 20_000
    assert opened.dataset[19_999] == {"text": sentences[-1].strip(), "label": 19_999}
    assert str(opened.report) == "20,000 lines read from 1 file, 20,000 kept, 0 dropped"
