"""Documents: which ones files hold, their titles and paragraphs; duplicates, the split, and what users do wrong."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora import COMPRESS, write
from isotrope.errors import UserError
from isotrope.text import pages
from isotrope.text.cleaning import fold
from isotrope.text.corpus import Document, Documents
from isotrope.text.files import find_sources
from isotrope.text.opened import open as text_open
from isotrope.text.readers import document_rows


def opened(*paths: Path | str) -> Documents:
    return text_open(list(paths)).documents()


def table(path: Path, *rows: dict[str, object]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def read(*paths: Path, title: str | None = None, text: str | None = None) -> list[tuple[str, list[str]]]:
    folded = (fold(row) for _, row in document_rows(find_sources(paths), title, text, {}))
    return [(title, paragraphs) for title, *paragraphs in folded if title or any(paragraphs)]


def how(*paths: Path) -> str:
    said: dict[str, None] = {}
    list(document_rows(find_sources(paths), None, None, said))
    return "; ".join(said)


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_single_text_file_holds_blocks_or_lines(tmp_path: Path, compression: str) -> None:
    pack = COMPRESS[compression]
    lines = write(tmp_path / f"lines.txt{compression}", pack(b"\none\ntwo\nthree\n\n"))
    assert read(lines) == [("", ["one"]), ("", ["two"]), ("", ["three"])]
    assert how(lines) == "each line is a document"
    blocks = write(tmp_path / f"blocks.txt{compression}", pack(b"\n\none\nmore\n \n\ntwo\n"))
    places = [place for place, _ in document_rows(find_sources([blocks]), None, None, {})]
    assert places == [f"{blocks}:3", f"{blocks}:7"], "where they begin"
    assert read(blocks) == [("", ["one more"]), ("", ["two"])]
    assert how(blocks) == "each block between blank lines is a document"


def test_a_folder_may_mix_formats(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\nmore\n\ntwo\n")
    write(tmp_path / "empty.txt", "")
    write(tmp_path / "b.md", "# B\n\nthree\n")
    write(tmp_path / "c.html", "<title>C</title><p>four<p>five")
    write(tmp_path / "d.jsonl", '{"text": "six"}\n')
    assert read(tmp_path) == [("", ["one more", "two"]), ("B", ["three"]), ("C", ["four", "five"]), ("", ["six"])]
    assert how(tmp_path) == (
        "each .txt file is a document, with blank lines between its paragraphs; each .md file is a document; "
        "each .html file is a document; each row of a table is a document"
    )


def test_tables_of_each_format(tmp_path: Path) -> None:
    rows = [("A", "one\n\ntwo"), ("", "three")]
    expected = [("A", ["one", "two"]), ("", ["three"])]
    jsonl = "".join(json.dumps({"_id": 1, "title": t, "text": x}) + "\n" for t, x in rows)
    assert read(write(tmp_path / "a.jsonl", jsonl + "\n")) == expected, "a blank line is nothing"
    csv = 'text,title\n"one\n\ntwo",A\nthree,\n'
    assert read(write(tmp_path / "a.csv", csv)) == expected
    assert read(write(tmp_path / "a.tsv", "title\ttext\nA\tone\n\tthree\n")) == [("A", ["one"]), ("", ["three"])]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"title": ["A", None], "paragraphs": [["one", "two"], ["three"]]}), path)
    assert read(path) == expected


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    row = {"title": "T", "name": "N", "text": "x", "paragraphs": ["p", None, "q"], "body": "b"}
    path = write(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert read(path) == [("T", ["x"])]
    assert read(path, text="paragraphs") == [("T", ["p", "q"])]
    assert read(path, title="name", text="body") == [("N", ["b"])]
    assert read(path, text="title") == [("", ["T"])], "one column is not read as both"
    only = write(tmp_path / "b.jsonl", json.dumps({"id": "1", "paragraphs": ["p"]}) + "\n")
    assert read(only) == [("", ["p"])]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ('{"a": "x"}', {}, "has no single text column (columns: a)"),
        ('{"text": "x"}', {"title": "head"}, "has no column 'head' (columns: text)"),
        ('{"text": 5}', {}, ":1: the text holds int, not a string"),
        ('{"text": ["a", 5]}', {}, ":1: the text holds int, not a string"),
        ('{"text": "x", "title": 5}', {}, ":1: the title holds int, not a string"),
        ('{"text": "x", "title": "A"}\n{"text": "y"}', {}, ":2 is not as the first object: 'title' is missing"),
    ],
)
def test_a_wrong_table_is_one_clear_line(tmp_path: Path, content: str, options: dict[str, str], expected: str) -> None:
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(UserError) as caught:
        read(path, **options)
    assert caught.value.problem.startswith(str(path))
    assert expected in caught.value.problem


def test_a_document_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LONGEST_LINE", 100)
    for name, place in (("a.txt", "a.txt:3"), ("a.md", "a.md")):
        with pytest.raises(UserError, match=f"{place} is longer than 100 characters: cut it"):
            read(write(tmp_path / name, "one\n\n" + "words and words\n" * 9))


def test_titles_and_paragraphs_are_kept_apart(tmp_path: Path) -> None:
    documents = opened(
        table(tmp_path / "a.jsonl", {"title": " A\n B", "text": "one  x\n\ntwo\n"}, {"title": "", "text": "three"})
    )
    assert list(documents.each()) == [Document("A B", ["one x", "two"]), Document("", ["three"])]
    assert documents.texts() == ["A B one x two", "three"]
    assert documents.texts(np.array([1, 0, 1])) == ["three", "A B one x two", "three"]


def test_one_line_says_what_was_read_and_dropped(tmp_path: Path) -> None:
    rows = [{"title": t, "text": x} for t, x in [("A", "one"), ("A", " one "), ("B", "one"), ("", " "), ("", "two")]]
    write(tmp_path / "d" / "left.pdf", "x")
    said = str(opened(table(tmp_path / "d" / "a.jsonl", *rows).parent).report).splitlines()
    assert said[0] == "5 documents read from 1 file, 3 kept, 2 dropped"
    assert [" ".join(line.split()[:2]) for line in said[1:3]] == ["blank 1", "duplicate 1"]
    assert "a.jsonl:2 'A | one'" in said[2]
    assert said[3:] == ["  files not read: 1 .pdf", "  each row of a table is a document; 2 have a title"]


def test_a_split_leaves_documents_out(tmp_path: Path) -> None:
    documents = opened(table(tmp_path / "a.jsonl", *({"text": f"document {i}"} for i in range(50))))
    train, held = documents.split(10, seed=3)
    assert sorted([*train, *held]) == list(range(50))
    assert len(held) == 10
    assert (np.diff(train) > 0).all()
    assert (np.diff(held) > 0).all()
    again, other = documents.split(10, seed=3)[1], documents.split(10, seed=4)[1]
    assert (held == again).all()
    assert not (held == other).all()
    assert set(documents.split(5, seed=3)[1]) < set(held), "more held out: the same and others"
    assert len(documents.split(0, seed=3)[1]) == 0
    for count in (-1, 49, 50):
        with pytest.raises(UserError, match=f"{count} of 50 documents cannot be held out"):
            documents.split(count, seed=0)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"text": "one"}\n', "1 of 1 documents left (dropped: none; each row of"),
        ("a.jsonl", '{"text": "x"}\n' * 99, "1 of 99 documents left (dropped: 98 duplicate"),
        ("a.txt", "one line\n", "each line is a document"),
        ("a.jsonl", '{"text": ""}\n{"text": null}\n', "0 of 2 documents left"),
        ("a.txt", "", "a.txt is empty"),
    ],
)
def test_too_few_documents_are_one_clear_line(tmp_path: Path, name: str, content: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(write(tmp_path / name, content))
    assert problem in caught.value.problem
