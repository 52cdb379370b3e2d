"""Which rows cleaning drops, and the report of why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import texts, write
from isotrope.errors import UserError
from isotrope.text.cleaning import Cleaning, CleaningReport, Seen, fold
from isotrope.text.corpus import Texts


def test_cleaning_says_what_it_dropped_and_where(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
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
    assert str(report).splitlines()[0] == "6,008 texts read from 2 files, 6,002 kept, 6 dropped"
    assert len(str(report).splitlines()) == 6
    str(report).encode()  # printable, though it quotes what is not UTF-8
    assert CleaningReport.from_json(report.to_json()) == report


def test_cleaning_options(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
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


def test_white_space_of_every_kind_is_folded_wherever_it_stands() -> None:
    """Text that is folded already is not split: the short way must see every white space."""
    for space in filter(str.isspace, map(chr, range(sys.maxunicode + 1))):
        found = fold((f"a{space}b", f"{space}a b", f"a b{space}", f"a {space}b", space, "a b", None))
        assert found == ("a b", "a b", "a b", "a b", "", "a b", ""), hex(ord(space))
