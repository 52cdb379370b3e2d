"""Rows of every kind of table, and what is wrong with a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora import SENTENCES, open_corpus, table, texts, write
from isotrope.errors import UserError
from isotrope.text.cleaning import fold
from isotrope.text.corpus import Texts


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_with_every_kind_of_string(tmp_path: Path, corpus: Callable[..., Texts], kind: pa.DataType) -> None:
    column = pa.array([*SENTENCES, None]).cast(kind)
    pq.write_table(pa.table({"n": range(5), "body": column}), tmp_path / "c.parquet", row_group_size=2)
    opened = corpus(tmp_path / "c.parquet")
    assert texts(opened) == SENTENCES
    assert opened.report.dropped["blank"] == 1


@given(sentences=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
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


def test_positive_and_negatives(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
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


def test_quotes_in_tables(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    """A quotation mark is text in a .tsv; in a .csv it may enclose a line end, and lines are still counted from 1."""
    assert texts(corpus(write(tmp_path / "a.tsv", 'text\n"open quote\nplain line\n'))) == ['"open quote', "plain line"]
    path = write(tmp_path / "a.csv", 'text,n\n"two\nlines",1\n\nshort\n')
    with pytest.raises(UserError, match=r"a\.csv:5 has 1 columns, its header 2"):
        corpus(path)


STRAY = 'id,text\n1,"He said,2\n' + "".join(f"{i},sentence {i}\n" for i in range(2, 202)) + '202,the end"\n'
ALONE = 'text\n"stray quote\n' + "".join(f"sentence {i}\n" for i in range(200)) + 'end of it"\nafter\n'
TABLES: dict[str, tuple[str, str, str]] = {
    "a stray quotation mark": ("c.csv", STRAY, r"c\.csv:2 has a quoted field of 202 lines"),
    "one in a single column": ("c.csv", ALONE, r"c\.csv:2 has a quoted field of 202 lines"),
    "semicolons": ("c.csv", "id;text\n1;ab, cd\n", r"the single column 'id;text', which holds ';'.*by commas"),
    "tabs in a .csv": ("c.csv", "id\ttext\n1\tab\n", r"separate the columns by commas"),
    "commas in a .tsv": ("c.tsv", "id,text\n1,ab\n", r"single column 'id,text'.*by a tab"),
    "one name twice": ("c.csv", "text,text\nab,cd\n", "c.csv has two columns of the name 'text'"),
    "one name twice, tabs": ("c.tsv", "text\tn\ttext\nab\t1\tcd\n", "c.tsv has two columns of the name 'text'"),
    "digits": ("c.jsonl", '{"text": "ab", "n": ' + "9" * 5000 + "}\n", r"c\.jsonl:1 .*.*too many digits"),
    "a long line": ("c.jsonl", '{"text": "' + "x" * (1 << 24) + '"}\n', r"c\.jsonl:1 is longer than 16,777,216 bytes"),
    "a long row": ("c.tsv", "text\n" + "x" * (1 << 24) + "\n", r"c\.tsv:2 is longer than 16,777,216 bytes"),
}


@pytest.mark.parametrize("name", TABLES)
def test_one_line_for_a_table_that_would_be_misread(tmp_path: Path, name: str) -> None:
    file, content, problem = TABLES[name]
    with pytest.raises(UserError, match=problem):
        open_corpus(write(tmp_path / file, content), cache=tmp_path / "cache")


def test_two_parquet_columns_of_one_name(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    columns = [pa.array(["ab", "cd"]), pa.array(["ef", "gh"]), pa.array(["ij", "kl"])]
    pq.write_table(pa.table(columns, names=["text", "text", "other"]), tmp_path / "c.parquet")
    with pytest.raises(UserError, match=r"c\.parquet has two columns of the name 'text'"):
        corpus(tmp_path / "c.parquet")
    assert texts(corpus(tmp_path / "c.parquet", text="other")) == ["ij", "kl"]


def test_two_unnamed_columns_that_nobody_reads_are_no_fault(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    assert texts(corpus(write(tmp_path / "c.csv", ",,text\n1,2,ab\n3,4,cd\n"))) == ["ab", "cd"]


def test_a_field_longer_than_python_allows_is_read(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    """Python's csv stops at 131,072 characters; a long text is the cleaning's matter."""
    opened = corpus(write(tmp_path / "c.csv", f"text,n\nab,1\n{'x ' * 100_000},2\ncd,3\n"))
    assert texts(opened) == ["ab", "cd"]
    assert opened.report.dropped["too_long"] == 1


def test_a_long_text_in_quotes_is_read(tmp_path: Path, corpus: Callable[..., Texts]) -> None:
    """Many lines in quotes are a text where they do not look like rows of the table."""
    poem = "\n".join(f"line {i}, of a poem, with commas" for i in range(40))
    assert len(corpus(write(tmp_path / "c.csv", f'id,text\n1,"{poem}"\n2,short\n'))) == 2
