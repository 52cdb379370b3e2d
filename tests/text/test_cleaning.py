"""Which rows cleaning drops, and the report of why."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus, texts, write
from isotrope.text.cleaning import Seen


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
