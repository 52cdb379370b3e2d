"""Rows of every kind of table, and what is wrong with a table; texts that are split into sentences."""

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.corpora import SENTENCES, corpus, table, texts, write
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.text.cleaning import fold
from isotrope.text.files import find_sources
from isotrope.text.readers import rows
from isotrope.text.split import language_of, split_text, words_of
from isotrope.text.tables import Columns


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_with_every_kind_of_string(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array([*SENTENCES, None]).cast(kind)
    pq.write_table(
        pa.table({"n": range(5), "body": column}), tmp_path / "c.parquet", row_group_size=2
    )
    opened = corpus(tmp_path / "c.parquet")
    assert texts(opened) == SENTENCES
    assert opened.report.dropped["blank"] == 1


@given(
    sentences=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None
)
def test_any_text_comes_through_every_table(tmp_path: Path, sentences: list[str]) -> None:
    """Round trip through formats that can hold any text: what is kept is what a plain loop over the
    list keeps.
    """
    sentences += ["ab", "cd"]
    expected = [s for s in dict.fromkeys(fold((s,))[0] for s in sentences) if len(s) >= 2]
    write(tmp_path / "a.jsonl", table(".jsonl", sentences))
    write(tmp_path / "a.csv", table(".csv", sentences))
    pq.write_table(pa.table({"text": sentences}), tmp_path / "a.parquet")
    for extension in (".jsonl", ".csv", ".parquet"):
        opened = corpus(tmp_path / f"a{extension}")
        assert texts(opened) == expected
        assert opened.report.read == len(sentences)


def test_positive_and_negatives(tmp_path: Path) -> None:
    write(
        tmp_path / "c.csv",
        "q,pos,n1,n2\nquery one,pos one,neg a,neg b\nquery two,pos two,neg c,\nquery 3,p 3,x1,x2\n",
    )
    opened = corpus(tmp_path / "c.csv", positive="pos", negatives=("n1", "n2"))
    assert opened.columns == ("text", "positive", "negative_0", "negative_1")
    assert opened.dataset.column_names == [*opened.columns, "label"]
    first = {
        "text": "query one",
        "positive": "pos one",
        "negative_0": "neg a",
        "negative_1": "neg b",
        "label": 0,
    }
    assert opened.dataset[0] == first
    assert opened.report.dropped["blank"] == 1
    assert corpus(tmp_path / "c.csv", text_column="n1").dataset[1]["text"] == "neg c"


def test_quotes_in_tables(tmp_path: Path) -> None:
    """A quotation mark is text in a .tsv; in a .csv it may enclose a line end, and lines are still
    counted from 1.
    """
    assert texts(corpus(write(tmp_path / "a.tsv", 'text\n"open quote\nplain line\n'))) == [
        '"open quote',
        "plain line",
    ]
    with refused("table-not-readable", "a.csv:5"):
        corpus(write(tmp_path / "a.csv", 'text,n\n"two\nlines",1\n\nshort\n'))


STRAY = (
    'id,text\n1,"He said,2\n'
    + "".join(f"{i},sentence {i}\n" for i in range(2, 202))
    + '202,the end"\n'
)
TWO = "a,b\nx1,y1\nx2,y2\n"
NO_TEXT = random.Random(0).choices(range(128, 256), k=5000)
# a file, its content, options, what is said of it
BROKEN: dict[str, tuple[str, str | bytes, dict[str, Any], str]] = {
    "empty": ("c.txt", "", {}, "c.txt is empty"),
    "unknown ending": ("c.docx", "abc", {}, "c.docx is not a file of text: supported: .txt"),
    "NUL bytes": ("c.txt", b"\x7fELF\0\0\0\1", {}, "c.txt is not text in UTF-8"),
    "gz that is none": ("c.txt.gz", "plain text", {}, "c.txt.gz is truncated or broken"),
    "parquet that is none": ("c.parquet", "plain text", {}, "c.parquet is truncated or broken"),
    "bad JSON": (
        "c.jsonl",
        '{"t": "ab"}\n{"t": \n',
        {},
        "c.jsonl:2 is not a JSON object (Expecting value",
    ),
    "deep JSON": ("c.jsonl", "[" * 100_000, {}, "c.jsonl:1 is not a JSON object"),
    "JSON list": ("c.jsonl", "[1]\n", {}, "c.jsonl:1 is not a JSON object: put one"),
    "JSON number": (
        "c.jsonl",
        '{"t": "ab"}\n{"t": 5}\n',
        {},
        "c.jsonl:2 is not as the first object: 't' holds int",
    ),
    "short row": (
        "c.tsv",
        "a\ttext\n1\tab\n2\n",
        {},
        "c.tsv:3 cannot be read as a table (1 columns, its header has 2",
    ),
    "open quote": ("c.csv", 'text\n"abc\n', {}, "c.csv:2 cannot be read as a table"),
    "a stray quotation mark": (
        "c.csv",
        STRAY,
        {},
        "c.csv:2 cannot be read as a table (a quoted field of 202 lines",
    ),
    "semicolons": (
        "c.csv",
        "id;text\n1;ab, cd\n",
        {},
        "its only column 'id;text' holds ';', and ',' separates",
    ),
    "one name twice": (
        "c.csv",
        "text,text\nab,cd\n",
        {},
        "no single column 'text' of strings (columns: text, text)",
    ),
    "no text column": ("c.csv", TWO, {}, "no single text column (columns: a, b)"),
    "column missing": ("c.csv", TWO, {"text_column": "c"}, "no column 'c' (columns: a, b)"),
    "negatives alone": ("c.csv", TWO, {"text_column": "a", "negatives": ("b",)}, "no positive"),
    "column of numbers": (
        "c.jsonl",
        '{"n": 5, "t": "ab"}',
        {"text_column": "n"},
        "'n' of strings (columns: n (int), t)",
    ),
    "a split pair": (
        "c.csv",
        TWO,
        {"positive": "b", "split": "sentences"},
        "cannot be split: leave out the split",
    ),
    "positive in plain text": (
        "c.txt",
        "one a",
        {"positive": "p"},
        "c.txt is not a table, so it has no column 'p'",
    ),
    "nothing left": ("c.txt", "\n\n \n", {}, "0 of 3 texts left (dropped: 3 blank)"),
    "code alone": (
        "c.md",
        "```\ncode\n```\n",
        {},
        "0 of 0 texts left (dropped: none): give more text; of",
    ),
    "carriage returns": ("c.csv", "text\rone a\rtwo b\r", {}, "c.csv:1 cannot be read as a table"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_file_is_one_line_and_leaves_nothing(
    tmp_path: Path, name: str, memory: AbstractFileSystem, cached: Path
) -> None:
    """On this machine and behind a URL."""
    file, content, options, problem = BROKEN[name]
    path = write(tmp_path / file, content)
    memory.pipe_file(f"/{file}", path.read_bytes())
    for place in (path, f"memory://{file}"):
        with pytest.raises(UserError) as caught:
            corpus(place, **options)
        assert problem in str(caught.value)
        assert "\n" not in str(caught.value)
        assert all(left.suffix == ".lock" for left in cached.glob("corpora/*"))


def test_two_parquet_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array(["ab", "cd"]), pa.array(["ef", "gh"]), pa.array(["ij", "kl"])]
    pq.write_table(pa.table(columns, names=["text", "text", "other"]), tmp_path / "c.parquet")
    with refused("no-such-column", "'text'"):
        corpus(tmp_path / "c.parquet")
    assert texts(corpus(tmp_path / "c.parquet", text_column="other")) == ["ij", "kl"]


def test_what_is_no_fault_of_a_table(tmp_path: Path) -> None:
    unnamed = corpus(write(tmp_path / "unnamed.csv", ",,text\n1,2,ab\n3,4,cd\n"))
    assert texts(unnamed) == ["ab", "cd"], "two unnamed columns that nobody reads"
    long = corpus(write(tmp_path / "long.csv", f"text,n\nab,1\n{'x ' * 100_000},2\ncd,3\n"))
    assert texts(long) == ["ab", "cd"], (
        "Python's csv stops at 131,072 characters; a long text is the cleaning's matter"
    )
    assert long.report.dropped["too long"] == 1


TEXTS = {
    "en": [
        "Dr. Smith paid 3.5 dollars (cf. Fig. 3).",
        '"Was it good?" he asked.',
        "He lives in the U.S.",
        "Yes!",
    ],
    "de": ["Am 3. Mai kam Dr. Müller z. B. nach Berlin.", "War es gut?", "Ja!"],
    "es": ["El Sr. García llegó.", "¿Qué quería?", "¡Nada!"],
    "zh": ["今天天气很好。", "我们去公园吧！", "你觉得怎么样？"],
    "hi": ["यह एक वाक्य है।", "क्या यह तीसरा है?"],
    "ru": ["Он родился в 1990 г. в России.", "А. С. Пушкин был поэтом."],
}


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_of_several_languages(language: str) -> None:
    assert [s.strip() for s in split_text(" ".join(TEXTS[language]), language)] == TEXTS[language]
    if language == "zh":
        assert list(split_text("".join(TEXTS["zh"]))) == TEXTS["zh"], (
            "the rules of English end them too"
        )


def test_an_empty_line_ends_a_sentence_and_a_single_line_end_does_not() -> None:
    found = [s.strip() for s in split_text("A title\n\nA first one\nthat goes on. A second")]
    assert found == ["A title", "A first one that goes on.", "A second"]
    for text in ("", "  \n\n ", "bad \udcff byte. Another."):
        assert list(split_text(text)) == [text], "what has no sentence comes back whole"


def test_no_text_is_lost_and_none_takes_long() -> None:
    # unclosed, unbroken, unclear
    for text in ("“a " * 20_000, "x" * 50_000, "A. " * 20_000, "« a. " * 5_000):
        assert "".join(split_text(text)).replace(" ", "") == text.replace(" ", "")


def test_an_unknown_split_is_one_line() -> None:
    for split in ("words", "sentences:", "sentences:german", "sentences:de-AT", ""):
        with refused("unknown-split", split):
            language_of(split)


def test_a_corpus_of_sentences(tmp_path: Path) -> None:
    lines = [
        '{"t": "One apple. Two pears.\\n\\nThree plums"}',
        "",
        '{"t": "Two pears. Four figs?"}',
    ]
    path = write(tmp_path / "c.jsonl", "\n".join(lines))
    whole, split = corpus(path), corpus(path, split="sentences")
    assert len(whole) == 2
    assert texts(split) == ["One apple.", "Two pears.", "Three plums", "Four figs?"]
    assert str(split.report).splitlines()[0] == (
        # a blank line, a duplicate
        "3 texts read from 1 file, split into 6 sentences, 4 kept, 2 dropped"
    )
    assert split.report.examples["duplicate"] == f"{path}:3 'Two pears.'"
    assert len({whole.key, split.key, corpus(path, split="sentences:de").key}) == 3
    assert split.key == corpus(path, split="sentences:en").key


def test_letters_count_as_words_if_there_are_no_spaces() -> None:
    assert words_of("a few  words") == (["a", "few", "words"], " ")
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたか"
    assert words_of(japanese) == (japanese, "")
    assert words_of("") == ([], " ")


PANDAS_TEXTS = ['She said "no".', "a\ttab", "two\nlines", '"quoted"', "plain", '""', 'ends "', "ä"]


def test_a_tsv_as_pandas_writes_it(tmp_path: Path) -> None:
    """It puts a field with a tab, a line end or a quotation mark in quotes."""
    frame = pd.DataFrame({"text": PANDAS_TEXTS, "n": range(len(PANDAS_TEXTS))})
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    read = [fields[0] for _, fields in rows(find_sources([tmp_path / "a.tsv"])[0], Columns())]
    assert read == PANDAS_TEXTS


def test_a_tsv_of_one_column_as_pandas_writes_it(tmp_path: Path) -> None:
    pd.DataFrame({"text": PANDAS_TEXTS}).to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    read = [fields[0] for _, fields in rows(find_sources([tmp_path / "a.tsv"])[0], Columns())]
    assert read == PANDAS_TEXTS


def test_a_tsv_without_quoting_keeps_its_quotation_marks(tmp_path: Path) -> None:
    lines = ['"A quotation" he said', '"all of it"', '"open', 'and "closed" again"', 'last "one"']
    path = write(tmp_path / "a.tsv", "n\ttext\n" + "".join(f"1\t{line}\n" for line in lines))
    assert [fields[0] for _, fields in rows(find_sources([path])[0], Columns("text"))] == lines
