"""Documents: which ones files hold, pages without markup, titles and paragraphs; the split, and
what users do wrong.
"""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.corpora import COMPRESS, corpus, texts, write
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.text import pages, read_text
from isotrope.text.cleaning import fold
from isotrope.text.corpus import Document
from isotrope.text.files import find_sources
from isotrope.text.pages import document_blocks, read_page
from isotrope.text.readers import document_rows


def table(path: Path, *rows: dict[str, object]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def read(
    *paths: Path, title: str | None = None, text: str | None = None
) -> list[tuple[str, list[str]]]:
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
    assert read(tmp_path) == [
        ("", ["one more", "two"]),
        ("B", ["three"]),
        ("C", ["four", "five"]),
        ("", ["six"]),
    ]
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
    assert read(write(tmp_path / "a.tsv", "title\ttext\nA\tone\n\tthree\n")) == [
        ("A", ["one"]),
        ("", ["three"]),
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"title": ["A", None], "paragraphs": [["one", "two"], ["three"]]}), path
    )
    assert read(path) == expected


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    row = {"title": "T", "name": "N", "text": "x", "paragraphs": ["p", None, "q"], "body": "b"}
    path = table(tmp_path / "a.jsonl", row)
    assert read(path) == [("T", ["x"])]
    assert read(path, text="paragraphs") == [("T", ["p", "q"])]
    assert read(path, title="name", text="body") == [("N", ["b"])]
    assert read(path, text="title") == [("", ["T"])], "one column is not read as both"
    assert read(table(tmp_path / "b.jsonl", {"id": "1", "paragraphs": ["p"]})) == [("", ["p"])]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ('{"a": "x"}', {}, "has no single text column (columns: a)"),
        ('{"text": "x"}', {"title": "head"}, "has no column 'head' (columns: text)"),
        ('{"text": 5}', {}, ":1 holds int, not a string"),
        ('{"text": ["a", 5]}', {}, ":1 holds int, not a string"),
        ('{"text": "x", "title": 5}', {}, ":1 holds int, not a string"),
        (
            '{"text": "x", "title": "A"}\n{"text": "y"}',
            {},
            ":2 is not as the first object: 'title' is missing",
        ),
    ],
)
def test_a_wrong_table_is_one_clear_line(
    tmp_path: Path, content: str, options: dict[str, str], expected: str
) -> None:
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}.*{re.escape(expected)}"):
        read(path, **options)


def test_a_document_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LONGEST_LINE", 100)
    for name, place in (("a.txt", "a.txt:3"), ("a.md", "a.md")):
        with refused("document-too-long", place):
            read(write(tmp_path / name, "one\n\n" + "words and words\n" * 9))


def test_titles_and_paragraphs_are_kept_apart(tmp_path: Path) -> None:
    rows = {"title": " A\n B", "text": "one  x\n\ntwo\n"}, {"title": "", "text": "three"}
    documents = read_text(table(tmp_path / "a.jsonl", *rows)).documents()
    assert list(documents.each()) == [Document("A B", ["one x", "two"]), Document("", ["three"])]
    assert documents.texts() == ["A B one x two", "three"]
    assert documents.texts(np.array([1, 0, 1])) == ["three", "A B one x two", "three"]


def test_one_line_says_what_was_read_and_dropped(tmp_path: Path) -> None:
    rows = [
        {"title": t, "text": x}
        for t, x in [("A", "one"), ("A", " one "), ("B", "one"), ("", " "), ("", "two")]
    ]
    write(tmp_path / "d" / "left.pdf", "x")
    said = str(
        read_text(table(tmp_path / "d" / "a.jsonl", *rows).parent).documents().report
    ).splitlines()
    assert said[0] == "5 documents read from 1 file, 3 kept, 2 dropped"
    assert [" ".join(line.split()[:2]) for line in said[1:3]] == ["blank 1", "duplicate 1"]
    assert "a.jsonl:2 'A | one'" in said[2]
    assert said[3:] == [
        "  files not read: 1 .pdf",
        "  each row of a table is a document; 2 have a title",
    ]


def test_a_split_leaves_documents_out(tmp_path: Path) -> None:
    documents = read_text(
        table(tmp_path / "a.jsonl", *({"text": f"document {i}"} for i in range(50)))
    ).documents()
    train, held = (rows.tolist() for rows in documents.split(10, seed=3))
    assert sorted([*train, *held]) == list(range(50))
    assert (len(held), train, held) == (10, sorted(train), sorted(held))
    assert (
        documents.split(10, seed=3)[1].tolist() == held != documents.split(10, seed=4)[1].tolist()
    )
    assert set(documents.split(5, seed=3)[1]) < set(held), "more held out: the same and others"
    assert len(documents.split(0, seed=3)[1]) == 0
    for count in (-1, 49, 50):
        with refused("too-many-held-out", f"{count} of 50"):
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
def test_too_few_documents_are_one_clear_line(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    with pytest.raises(UserError, match=re.escape(problem)):
        read_text(write(tmp_path / name, content)).documents()


MARKDOWN = """---
title: A page
tags: [a, b]
---
# The *heading*

A **first** paragraph, with a [link](https://x.org "title") and `code`,
over two lines. ![a picture](p.png)

<!-- a comment -->
- an item
- another: <https://example.org>

```python
left_out = True
```

    left out too

`left out`

| name | what |
|---|---|
| a | an apple |

> A quotation<br>of two <b>lines</b>.

<div align="center"><p>Inside HTML</p></div>
"""
HTML = """<!doctype html><html><head><title>Left out</title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><h1>The heading</h1>
<p>A <b>bo</b>ld paragraph &amp; more<br>text.<p>A second.
<ul><li>one<li>two<ul><li>inner</ul></ul><pre>left out</pre>
<table><tr><th>name<th>what<tr><td>a<td>an apple</table>
<script>left_out()</script><!-- left out --><form>left out<input></form>loose text<footer>left out</footer>
"""


def blocks_of(path: Path) -> list[tuple[int, str]]:
    return list(document_blocks(*find_sources([path])))


def test_markdown_gives_its_blocks_with_their_lines(tmp_path: Path) -> None:
    assert blocks_of(write(tmp_path / "a.md", MARKDOWN)) == [
        (5, "The heading"),
        (7, "A first paragraph, with a link and code, over two lines."),
        (11, "an item"),
        (12, "another:"),
        (22, "name what"),
        (24, "a an apple"),
        (26, "A quotation of two lines."),
        (28, "Inside HTML"),
    ]


def test_html_gives_its_blocks_with_their_numbers(tmp_path: Path) -> None:
    found = [
        "The heading",
        "A bold paragraph & more text.",
        "A second.",
        "one",
        "two",
        "inner",
        "name what",
    ]
    found += ["a an apple", "loose text"]
    assert blocks_of(write(tmp_path / "a.html", HTML)) == list(enumerate(found, start=1))


def test_a_folder_of_documents_is_read_and_the_rest_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    write(folder / "a.md", "# Head\n\nFirst one. Second one.\n")
    write(folder / "deep/b.HTM", "<p>Third <i>one</i>.")
    write(folder / "c.markdown.gz", gzip.compress(b"Fourth one.\n"))
    write(folder / "empty.md", "")  # common: a page that a site's builder fills
    for name in ("p.png", "q.PNG", "LICENSE", ".git/config", ".hidden.md"):
        write(folder / name, "left out")
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    (folder / "gone.txt").symlink_to(tmp_path / "gone.txt")
    opened = read_text(folder).texts()
    assert texts(opened) == ["Head", "First one. Second one.", "Fourth one.", "Third one."]
    assert str(opened.report).splitlines() == [
        "4 texts read from 4 files, 4 kept, 0 dropped",
        "  files not read: 2 .png, 1 .txt, 2 hidden, 1 linked folder, 1 no ending",
    ]
    assert len(corpus(folder, split="sentences")) == 5
    (folder / "p.png").unlink()
    assert "1 .png" in str(read_text(folder).texts().report), (
        "found again in the cache, counted anew"
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """A page is decoded as a browser would; in Markdown such a block is counted as undecodable."""
    latin2 = '<meta charset="iso-8859-2"><p>Łódź text'.encode("iso-8859-2")
    assert blocks_of(write(tmp_path / "declared.html", latin2)) == [(1, "Łódź text")]
    for silent in (b"", b"<meta charset=none>"):
        assert blocks_of(write(tmp_path / "a.html", silent + b"<p>Z\xfcrich has text")) == [
            (1, "Zürich has text")
        ]
    write(tmp_path / "in/a.md", b"Z\xfcrich has text\n\nOne more\n\nAnother one\n")
    assert corpus(tmp_path / "in").report.dropped["not UTF-8 text"] == 1


@pytest.mark.parametrize(
    ("name", "content", "title", "paragraphs"),
    [
        ("a.md", "intro\n\n## First\n\ntext\n\n# Second\n", "First", ["intro", "text", "Second"]),
        ("a.md", "# `code`\n\ntext\n\n## `more`\n\nend", "code", ["text", "end"]),
        (
            "a.md",
            '---\ntitle: "Of  the page"\n---\n## Part\n\ntext',
            "Of the page",
            ["Part", "text"],
        ),
        ("a.md", "---\ntitle: Same\n---\n# Same\n\ntext", "Same", ["text"]),
        ("a.md", "+++\ntitle = 'T'\n+++\ntext", "T", ["text"]),
        ("a.md", "---\r\ntitle: x\r\n---\r\nText.\n", "x", ["Text."]),
        ("a.md", "---\nA rule before.\n\n---\nAnd behind\n", "", ["A rule before.", "And behind"]),
        ("a.md", '<h1 align="center">Logo</h1>\n\ntext\n', "Logo", ["text"]),
        ("a.md", "text alone", "", ["text alone"]),
        ("a.md", "", "", []),
        (
            "a.html",
            "<title>Head</title><p>text<h2>A <b>part</b></h2><p>end",
            "A part",
            ["text", "end"],
        ),
        ("a.html", "<title> Head\n of it</title><p>text", "Head of it", ["text"]),
        ("a.html", "<p>text", "", ["text"]),
    ],
)
def test_a_page_has_a_title(
    tmp_path: Path, name: str, content: str, title: str, paragraphs: list[str]
) -> None:
    assert read_page(*find_sources([write(tmp_path / name, content)])) == (title, paragraphs)


def test_text_after_lists_nested_deep_stays(tmp_path: Path) -> None:
    nested = "".join(f"{'  ' * level}- point {level} of the list\n" for level in range(30))
    found = [
        text for _, text in blocks_of(write(tmp_path / "a.md", f"{nested}\nThe text after it.\n"))
    ]
    assert found == [*(f"point {level} of the list" for level in range(30)), "The text after it."]
    deep = f"{'*a ' * 2000}deep{'*' * 2000} emphasis"
    found = [
        text for _, text in blocks_of(write(tmp_path / "b.md", f"{deep}\n\nThe text after it.\n"))
    ]
    assert found[-1] == "The text after it."
