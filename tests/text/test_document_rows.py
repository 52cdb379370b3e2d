"""Which documents files hold: files, blocks, lines, rows; their titles and paragraphs."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora import COMPRESS, write
from isotrope.errors import UserError
from isotrope.text import pages
from isotrope.text.cleaning import fold
from isotrope.text.corpus import Document
from isotrope.text.document_rows import document_rows
from isotrope.text.files import find_sources


def read(*paths: Path, title: str | None = None, text: str | None = None) -> list[tuple[str, list[str]]]:
    found = document_rows(find_sources(paths), title, text, {})
    folded = (fold(row) for _, row in found)
    return [(title, paragraphs) for title, *paragraphs in folded if title or any(paragraphs)]


def how(*paths: Path) -> str:
    said: dict[str, None] = {}
    list(document_rows(find_sources(paths), None, None, said))
    return "; ".join(said)


def test_the_text_of_a_document_is_title_and_paragraphs() -> None:
    assert Document("A", ["b", "c"]).text == "A b c"
    assert Document("", ["b"]).text == "b"


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_single_text_file_holds_blocks_or_lines(tmp_path: Path, compression: str) -> None:
    pack = COMPRESS[compression]
    lines = write(tmp_path / f"lines.txt{compression}", pack(b"\none\ntwo\nthree\n\n"))
    assert read(lines) == [("", ["one"]), ("", ["two"]), ("", ["three"])]
    assert how(lines) == "each line is a document"
    blocks = write(tmp_path / f"blocks.txt{compression}", pack(b"\n\none\nmore\n \n\ntwo\n"))
    assert read(blocks) == [("", ["one more"]), ("", ["two"])]
    assert how(blocks) == "each block between blank lines is a document"


def test_a_place_is_where_a_document_begins(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\none\nmore\n\n\ntwo\n")
    places = [place for place, _ in document_rows(find_sources([path]), None, None, {})]
    assert places == [f"{path}:2", f"{path}:6"]


def test_several_text_files_are_a_document_each(tmp_path: Path) -> None:
    write(tmp_path / "d" / "a.txt", "one\nmore\n\ntwo\n")
    write(tmp_path / "d" / "b.txt", "three")
    write(tmp_path / "d" / "c.txt", "")
    assert read(tmp_path / "d") == [("", ["one more", "two"]), ("", ["three"])]
    assert read(tmp_path / "d" / "a.txt", tmp_path / "d" / "b.txt") == [("", ["one more", "two"]), ("", ["three"])]


def test_a_folder_may_mix_formats(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\n\ntwo\n")
    write(tmp_path / "b.md", "# B\n\nthree\n")
    write(tmp_path / "c.html", "<title>C</title><p>four<p>five")
    write(tmp_path / "d.jsonl", '{"text": "six"}\n')
    assert read(tmp_path) == [("", ["one", "two"]), ("B", ["three"]), ("C", ["four", "five"]), ("", ["six"])]
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
    path = write(tmp_path / "a.txt", "one\n\n" + "words and words\n" * 9)
    with pytest.raises(UserError, match=r"a.txt:3 is longer than 100 characters"):
        read(path)
