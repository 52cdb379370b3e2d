"""Markdown and HTML as documents: their text without markup, and what is left out."""

import gzip
from pathlib import Path

import pytest

import isotrope.text as text
from corpora import corpus, texts, write
from isotrope.text.files import find_sources
from isotrope.text.pages import document_blocks, read_page

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


def read(path: Path) -> list[tuple[int, str]]:
    (source,) = find_sources([path])
    return list(document_blocks(source))


def test_markdown_gives_its_blocks_with_their_lines(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.md", MARKDOWN)) == [
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
    found = ["The heading", "A bold paragraph & more text.", "A second.", "one", "two", "inner", "name what"]
    found += ["a an apple", "loose text"]
    assert read(write(tmp_path / "a.html", HTML)) == list(enumerate(found, start=1))


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
    opened = text.open(folder).texts()
    assert texts(opened) == ["Head", "First one. Second one.", "Fourth one.", "Third one."]
    assert str(opened.report).splitlines() == [
        "4 texts read from 4 files, 4 kept, 0 dropped",
        "  files not read: 2 .png, 1 .txt, 2 hidden, 1 linked folder, 1 no ending",
    ]
    assert len(corpus(folder, split="sentences")) == 5
    (folder / "p.png").unlink()
    assert "1 .png" in str(text.open(folder).texts().report), "found again in the cache, counted anew"


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """A page is decoded as a browser would; in Markdown such a block is counted as undecodable."""
    latin2 = '<meta charset="iso-8859-2"><p>Łódź text'.encode("iso-8859-2")
    assert read(write(tmp_path / "declared.html", latin2)) == [(1, "Łódź text")]
    assert read(write(tmp_path / "silent.html", b"<p>Z\xfcrich has text")) == [(1, "Zürich has text")]
    assert read(write(tmp_path / "odd.html", b"<meta charset=none><p>Z\xfcrich has text")) == [(1, "Zürich has text")]
    write(tmp_path / "in/a.md", b"Z\xfcrich has text\n\nOne more\n\nAnother one\n")
    assert corpus(tmp_path / "in").report.dropped["not UTF-8 text"] == 1


@pytest.mark.parametrize(
    ("name", "content", "title", "paragraphs"),
    [
        ("a.md", "intro\n\n## First\n\ntext\n\n# Second\n", "First", ["intro", "text", "Second"]),
        ("a.md", "# `code`\n\ntext\n\n## `more`\n\nend", "code", ["text", "end"]),
        ("a.md", '---\ntitle: "Of  the page"\n---\n## Part\n\ntext', "Of the page", ["Part", "text"]),
        ("a.md", "---\ntitle: Same\n---\n# Same\n\ntext", "Same", ["text"]),
        ("a.md", "+++\ntitle = 'T'\n+++\ntext", "T", ["text"]),
        ("a.md", "---\r\ntitle: x\r\n---\r\nText.\n", "x", ["Text."]),
        ("a.md", "---\nA rule before.\n\n---\nAnd behind\n", "", ["A rule before.", "And behind"]),
        ("a.md", '<h1 align="center">Logo</h1>\n\ntext\n', "Logo", ["text"]),
        ("a.md", "text alone", "", ["text alone"]),
        ("a.md", "", "", []),
        ("a.html", "<title>Head</title><p>text<h2>A <b>part</b></h2><p>end", "A part", ["text", "end"]),
        ("a.html", "<title> Head\n of it</title><p>text", "Head of it", ["text"]),
        ("a.html", "<p>text", "", ["text"]),
    ],
)
def test_a_page_has_a_title(tmp_path: Path, name: str, content: str, title: str, paragraphs: list[str]) -> None:
    (source,) = find_sources([write(tmp_path / name, content)])
    assert read_page(source) == (title, paragraphs)


def test_text_after_lists_nested_deep_stays(tmp_path: Path) -> None:
    nested = "".join(f"{'  ' * level}- point {level} of the list\n" for level in range(30))
    found = [text for _, text in read(write(tmp_path / "a.md", f"{nested}\nThe text after it.\n"))]
    assert found == [*(f"point {level} of the list" for level in range(30)), "The text after it."]
    deep = f"{'*a ' * 2000}deep{'*' * 2000} emphasis"
    found = [text for _, text in read(write(tmp_path / "b.md", f"{deep}\n\nThe text after it.\n"))]
    assert found[-1] == "The text after it."
