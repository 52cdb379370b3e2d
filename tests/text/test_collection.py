"""Documents in their cache: read once, duplicates dropped and counted, split by document, and what users do wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fsspec import AbstractFileSystem

from corpora import write
from isotrope.errors import UserError
from isotrope.text.corpus import Documents
from isotrope.text.opened import open as text_open

Open = Callable[..., Documents]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda *paths, **options: text_open(list(paths), **options).documents()


def table(path: Path, *rows: dict[str, object]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def test_titles_and_paragraphs_are_kept_apart(tmp_path: Path, opened: Open) -> None:
    documents = opened(
        table(tmp_path / "a.jsonl", {"title": " A\n B", "text": "one  x\n\ntwo\n"}, {"title": "", "text": "three"})
    )
    assert documents.titles() == ["A B", ""]
    assert documents.paragraphs() == [["one x", "two"], ["three"]]
    assert documents.texts() == ["A B one x two", "three"]
    assert documents.texts(np.array([1, 0, 1])) == ["three", "A B one x two", "three"]
    assert [document.title for document in documents.each(np.array([0]))] == ["A B"]


def test_one_line_says_what_was_read_and_dropped(tmp_path: Path, opened: Open) -> None:
    rows = [{"title": t, "text": x} for t, x in [("A", "one"), ("A", " one "), ("B", "one"), ("", " "), ("", "two")]]
    write(tmp_path / "d" / "left.pdf", "x")
    said = str(opened(table(tmp_path / "d" / "a.jsonl", *rows).parent).report).splitlines()
    assert said[0] == "5 documents read from 1 file, 3 kept, 2 dropped"
    assert [" ".join(line.split()[:2]) for line in said[1:3]] == ["blank 1", "duplicate 1"]
    assert "a.jsonl:2 'A | one'" in said[2]
    assert said[3:] == ["  files not read: 1 .pdf", "  each row of a table is a document; 2 have a title"]


def test_a_document_that_is_not_unicode_is_dropped(tmp_path: Path, opened: Open) -> None:
    write(tmp_path / "d" / "a.txt", "good text " * 9)
    write(tmp_path / "d" / "b.txt", "more text " * 9)
    path = write(tmp_path / "d" / "c.txt", b"and more " * 9 + b"Z\xfcrich")
    report = opened(tmp_path / "d").report
    assert report.dropped["undecodable"] == 1
    assert " ".join(str(report).splitlines()[1].split()) == (
        rf"not UTF-8 text 1 first: {path} 'e and more and more and more Z\xfcrich'"
    ), "file and byte"


def test_a_split_leaves_documents_out(tmp_path: Path, opened: Open) -> None:
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


def test_bad_input_is_one_clear_line(tmp_path: Path, opened: Open) -> None:
    copies = table(tmp_path / "copies.jsonl", *({"text": "the same"} for _ in range(1000)))
    cases: dict[str, tuple[Path, str]] = {
        "one document": (
            table(tmp_path / "one.jsonl", {"text": "one"}),
            "a single document is left (1 document read, dropped: none; each row of a table is a document; 0 have",
        ),
        "copies": (copies, "a single document is left (1,000 documents read, dropped: 999 duplicate"),
        "one line": (write(tmp_path / "l.txt", "one line\n"), "each line is a document"),
        "blank": (table(tmp_path / "b.jsonl", {"text": ""}, {"text": None}), "no document is left (2 documents read"),
        "empty": (write(tmp_path / "e.txt", ""), "no document is left (0 documents read"),
    }
    for name, (path, expected) in cases.items():
        with pytest.raises(UserError) as caught:
            opened(path)
        assert expected in caught.value.problem, name


def test_documents_behind_a_url_are_those_of_this_machine(
    tmp_path: Path, memory: AbstractFileSystem, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "isotrope"))
    files = {"a.md": "# One\n\ntwo three\n", "b.txt": "four\n\nfive\n", "empty.txt": "", "c.html": "<h1>Six</h1>"}
    for name, content in files.items():
        write(tmp_path / "in" / name, content)
        memory.pipe_file(f"/in/{name}", content.encode())
    here, there = opened(tmp_path / "in"), text_open("memory://in").documents()
    assert (there.key, there.titles(), there.paragraphs()) == (here.key, here.titles(), here.paragraphs())
    assert opened("memory://in/b.txt").texts() == opened(tmp_path / "in/b.txt").texts() == ["four", "five"]
