"""The user's own pair file: read as written, or refused in one line that says where and how to go on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import read_pairs

LINES = [f"sentence {n}\tanother {n}\t{n / 2}" for n in range(12)]


def write(tmp_path, lines, name="pairs.tsv"):
    path = tmp_path / name
    path.write_bytes(lines if isinstance(lines, bytes) else "\n".join(lines).encode())
    return path


def test_reads_what_is_there(tmp_path):
    pairs = read_pairs(write(tmp_path, LINES))
    assert (pairs.name, len(pairs)) == ("pairs", 12)
    assert (pairs.first[3], pairs.second[3]) == ("sentence 3", "another 3")
    np.testing.assert_array_equal(pairs.gold, np.arange(12) / 2)
    assert pairs.gold.dtype == np.float64


@pytest.mark.parametrize(
    "lines",
    [
        ["sentence1\tsentence2\tscore", *LINES],
        [*LINES[:6], "", "  ", *LINES[6:], ""],
        ("\ufeff" + "\r\n".join(LINES) + "\r\n").encode(),
    ],
    ids=["header", "blank lines", "mark and windows line ends"],
)
def test_harmless_variations(tmp_path, lines):
    assert read_pairs(write(tmp_path, lines)).second == [f"another {n}" for n in range(12)]


def test_csv_has_commas_and_quotes(tmp_path):
    lines = ["a,b,score", '"one, two","say ""hi""",3', *(f"x{n},y{n},{n}" for n in range(10))]
    pairs = read_pairs(write(tmp_path, lines, "own.csv"))
    assert (pairs.first[0], pairs.second[0], len(pairs)) == ("one, two", 'say "hi"', 11)


def test_quotes_and_odd_separators_are_plain_characters_in_tsv(tmp_path):
    pairs = read_pairs(write(tmp_path, ['he said "no\tline\u2028separator\t1', *LINES]))
    assert (pairs.first[0], pairs.second[0]) == ('he said "no', "line\u2028separator")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "0 pair"),
        (LINES[:9], "9 pair.*at least 10"),
        ([*LINES, "only\ttwo"], "line 13: 2 column"),
        ([*LINES, "a\tb\t1\td"], "line 13: 4 column"),
        ([*LINES, "a b 1"], "line 13: 1 column"),
        ([*LINES, "a\tb\tfour"], "line 13: the score 'four'"),
        (["a\tb\t4,5", *LINES], "line 1: the score '4,5'"),
        (["a\tb\tnan", *LINES], "line 1: the score 'nan'"),
        ([*LINES, "a\tb\tinf"], "line 13: the score 'inf'"),
        ([*LINES, "a\tb\t"], "line 13: the score ''"),
        ([*LINES, "\tb\t1"], "line 13: the first sentence is empty"),
        ([*LINES, "a\t \t1"], "line 13: the second sentence is empty"),
        (["a\tb\t3"] * 20, "every score is 3"),
        ("\n".join(LINES).encode() + b"\ncaf\xe9\tb\t1\n", "line 13: not UTF-8"),
        (b"\0" * 50, "line 1: a binary file"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, lines, words):
    with pytest.raises(UserError, match=words) as caught:
        read_pairs(write(tmp_path, lines))
    assert "pairs.tsv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_paths_and_broken_quotes(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_pairs(tmp_path / "missing.tsv")
    with pytest.raises(UserError, match="cannot be read"):
        read_pairs(tmp_path)
    with pytest.raises(UserError, match=r"own\.csv, line 1"):
        read_pairs(write(tmp_path, ['"open,b,1'], "own.csv"))


@given(st.binary(max_size=200), st.sampled_from(["x.tsv", "x.csv"]))
def test_any_bytes_end_in_an_answer_or_a_user_error(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with pytest.raises(UserError):  # 200 random bytes hold no ten pairs
        read_pairs(path)
