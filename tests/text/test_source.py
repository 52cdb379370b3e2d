"""Opened text: the same rows from whatever holds them, read once, and checked at the end."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from datasets import Dataset

from helpers.corpora import write
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.text import read_text
from isotrope.text.corpus import Document
from isotrope.text.files import TextFile

LINES = ["The first line is here.", "A second one follows it.", "The third ends the text."]
TITLES = ["One", "Two", "Three"]


def test_texts_are_the_same_from_all_and_the_name_says_what_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "lines.txt", "".join(f"{line}\n" for line in LINES))
    frame, dataset = (
        pandas.DataFrame({"text": LINES, "n": [1, 2, 3]}),
        Dataset.from_dict({"text": LINES}),
    )
    opened = [read_text(one) for one in (path, [path], LINES, pandas.Series(LINES), frame, dataset)]
    assert [list(one.texts().dataset["text"]) for one in opened] == [LINES] * 6
    assert [one.name for one in opened] == [
        str(path),
        str(path),
        "a list of 3 texts",
        "a Series of 3 texts",
        "a DataFrame of 3 rows",
        "a Dataset of 3 rows",
    ]


def test_documents_with_titles_are_the_same_from_all(tmp_path: Path) -> None:
    columns = {"title": TITLES, "body": LINES}
    rows = (json.dumps({"title": t, "body": b}) for t, b in zip(TITLES, LINES, strict=True))
    path = write(tmp_path / "documents.jsonl", "\n".join(rows))
    for source in (path, pandas.DataFrame(columns), Dataset.from_dict(columns)):
        found = read_text(source, text_column="body").documents()
        assert list(found.each()) == [
            Document(title, [line]) for title, line in zip(TITLES, LINES, strict=True)
        ]
        swapped = read_text(source, text_column="title", title_column="body").documents()
        assert [document.title for document in swapped.each()] == LINES


def test_it_is_read_once_and_an_opened_text_is_passed_on() -> None:
    opened = read_text(LINES)
    assert opened.texts() is opened.texts()
    assert opened.documents() is opened.documents()
    assert read_text(opened) is opened


@pytest.mark.parametrize(
    "name", ["a.txt", "a.jsonl", "a.csv", "a.txt.gz", "a.parquet", "blocks.txt"]
)
def test_a_file_is_opened_once(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not again by the next call, nor by the check at the end."""
    contents: dict[str, str | bytes] = {
        "a.txt": "\n".join(LINES),
        "blocks.txt": "\n\n".join(LINES),
        "a.csv": "text\n" + "\n".join(LINES),
        "a.jsonl": "".join(json.dumps({"text": line}) + "\n" for line in LINES),
        "a.txt.gz": gzip.compress("\n".join(LINES).encode()),
        "a.parquet": "",
    }
    path = write(tmp_path / name, contents[name])
    if name == "a.parquet":
        pandas.DataFrame({"text": LINES}).to_parquet(path)
    opens, real = [], TextFile.open
    monkeypatch.setattr(TextFile, "open", lambda self: (opens.append(self.path), real(self))[1])
    for kind in ("texts", "documents"):
        opened = read_text(path)
        key = getattr(opened, kind)().key
        opened.check()
        assert getattr(read_text(path), kind)().key == key
    assert opens == [path, path]


def test_a_text_with_line_ends_stays_one_row_and_what_is_no_unicode_is_counted() -> None:
    report = read_text(["One\n\ntext.", "Another text.", "lone \ud800"]).texts().report
    assert (report.kept, report.dropped["not UTF-8 text"]) == (2, 1)
    assert report.examples["not UTF-8 text"].startswith("a list of 3 texts:3 ")


def test_a_file_that_is_edited_at_once_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for _ in range(3):
        for lines in (LINES, LINES[::-1]):  # of the same size, a moment later
            path.write_text("\n".join(lines))
            assert list(read_text(path).texts().dataset["text"]) == lines


@pytest.mark.parametrize("source", [3, None, [1, 2], []])
def test_what_is_no_text_is_refused(source: Any) -> None:
    with pytest.raises(UserError):
        read_text(source)


def test_files_that_change_under_the_work_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    for number, line in enumerate(LINES):
        write(folder / f"{number}.md", f"# {TITLES[number]}\n\n{line}\n")
    opened = read_text(folder)
    opened.documents()
    opened.check()
    (folder / "3.md").write_text("A new one.\n")
    with refused("text-changed"):
        opened.check()
    (folder / "3.md").unlink()
    opened.check()
    (folder / "0.md").touch()
    opened.check()
    (folder / "0.md").write_text("Other words.\n")
    with refused("text-changed"):
        opened.check()
