"""What each form of text is read as: the table of docs/data.md, one row a test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict

from isotrope.errors import UserError
from isotrope.text import TextPath, read_text

LINES = ["a long train", "a small ship"]
ROWS = {"text": LINES, "n": [1, 2]}

# In a folder with notes.txt (the two lines), docs/x.txt (the same), and no other file.
READ: dict[str, tuple[Callable[[], Any], str]] = {
    "a Path": (lambda: Path("notes.txt"), "notes.txt"),
    "a Path of a folder": (lambda: Path("docs"), "docs"),
    "a list of Paths": (lambda: [Path("notes.txt")], "notes.txt"),
    "a string that names a file": (lambda: "notes.txt", "notes.txt"),
    "a string that names a folder": (lambda: "docs", "docs"),
    "a list of TextPaths": (lambda: [TextPath("docs")], "docs"),
    "a list of strings": (lambda: LINES, "a list of 2 texts"),
    "a tuple of strings": (lambda: tuple(LINES), "a tuple of 2 texts"),
    "a list with None": (lambda: [*LINES, None], "a list of 3 texts"),
    "a list with NaN and pd.NA": (lambda: [*LINES, float("nan"), pd.NA], "a list of 4 texts"),
    "a generator": (lambda: (line for line in LINES), "a generator of 2 texts"),
    "values of a dict": (lambda: dict(enumerate(LINES)).values(), "a dict_values of 2 texts"),
    "an array of strings": (lambda: np.array(LINES), "an ndarray of 2 texts"),
    "an array of objects": (lambda: np.array(LINES, dtype=object), "an ndarray of 2 texts"),
    "a Series": (lambda: pd.Series(LINES), "a Series of 2 texts"),
    "an Index": (lambda: pd.Index(LINES), "an Index of 2 texts"),
    "an Arrow array": (lambda: pa.array(LINES), "a StringArray of 2 texts"),
    "a DataFrame": (lambda: pd.DataFrame(ROWS), "a DataFrame of 2 rows"),
    "a DataFrame with a mixed column": (
        lambda: pd.DataFrame(ROWS | {"note": [1, "x"]}),
        "a DataFrame of 2 rows",
    ),
    "a DataFrame with two columns of one name": (
        lambda: pd.DataFrame([[line, 1, 2] for line in LINES], columns=["text", "n", "n"]),
        "a DataFrame of 2 rows",
    ),
    "a list of dicts": (lambda: [{"text": line} for line in LINES], "a list of 2 rows"),
    "an Arrow table": (lambda: pa.table(ROWS), "a Table of 2 rows"),
    "a Dataset": (lambda: Dataset.from_dict(ROWS), "a Dataset of 2 rows"),
    "a Dataset's column": (lambda: Dataset.from_dict(ROWS)["text"], "a Column of 2 texts"),
    "an IterableDataset": (
        lambda: Dataset.from_dict(ROWS).to_iterable_dataset(),
        "an IterableDataset of 2 rows",
    ),
    "a DatasetDict of one split": (
        lambda: DatasetDict(train=Dataset.from_dict(ROWS)),
        "a DatasetDict of 2 rows",
    ),
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an empty list": (list, "no-texts"),
    "a number": (lambda: 3, "no-texts"),
    "bytes": (lambda: b"a train", "no-texts"),
    "a dict": (lambda: {"text": LINES}, "no-texts"),
    "a set": (lambda: set(LINES), "no-texts"),
    "a list with a number": (lambda: [*LINES, 3], "no-texts"),
    "an array of two dimensions": (lambda: np.array([LINES]), "no-texts"),
    "an array of numbers": (lambda: np.arange(3), "no-texts"),
    "Paths and None": (lambda: [Path("notes.txt"), None], "not-a-path"),
    "a DatasetDict of two splits": (
        lambda: DatasetDict(train=Dataset.from_dict(ROWS), test=Dataset.from_dict(ROWS)),
        "several-splits",
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "docs").mkdir()
    for name in ("notes.txt", "docs/x.txt"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES))
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


@pytest.mark.parametrize("form", READ)
def test_what_a_form_is_read_as(form: str) -> None:
    make, name = READ[form]
    source = read_text(make())
    assert source.name == name
    assert list(source.texts().dataset["text"]) == LINES


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_holds_no_texts(form: str) -> None:
    make, code = REFUSED[form]
    with pytest.raises(UserError) as error:
        read_text(make())
    assert error.value.code == code


@pytest.mark.parametrize("text", ["A train is late.", "cats", "see a.b\nand c"])
def test_a_string_that_names_nothing_is_a_text_and_this_is_said(text: str) -> None:
    source = read_text(text)
    assert source.name == "a list of 1 texts"
    assert "is read as a text, since no file or folder has this name" in source.notes[0]


@pytest.mark.parametrize("path", ["missing.txt", "data/missing", "./missing", "missing.jsonl.gz"])
def test_a_string_that_looks_like_a_path_is_one(path: str) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_text(path).texts()


def test_a_list_of_names_of_files_is_texts_and_this_is_said() -> None:
    source = read_text(["docs", "notes.txt"])
    assert source.name == "a list of 2 texts"
    assert "read as texts, though files have these names" in source.notes[0]


def test_columns_that_are_not_read_are_named() -> None:
    frame = pd.DataFrame(ROWS | {"note": [1, "x"]})
    assert read_text(frame).notes == ("columns not read: note",)
    with pytest.raises(UserError) as error:
        read_text(frame, text_column="note")
    assert error.value.code == "column-not-readable"
