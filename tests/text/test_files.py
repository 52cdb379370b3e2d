"""Files and folders, compressed or not, and what is no text."""

import os
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem

from corpora import COMPRESS, SENTENCES, corpus, table, texts, write
from isotrope.errors import UserError
from isotrope.store.remote import RemoteFile
from isotrope.text import files
from isotrope.text.files import find_sources, lines, not_read


def test_a_folder_that_cannot_be_read_is_named_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the tests may read every folder, so its refusal is made."""
    write(tmp_path / "in/a.txt", "from a\n")
    (tmp_path / "in/secret").mkdir()
    real = os.scandir

    def scandir(path: Path | str) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"secret cannot be read .Permission denied."):
        find_sources([tmp_path / "in"])


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_all_streams_are_read_and_any_damage_is_an_error(tmp_path: Path, compression: str) -> None:
    """A second stream whose head is damaged must not end the file in silence, and half of the corpus with it."""
    first, second = (COMPRESS[compression]("".join(f"{w} {i}\n" for i in range(500)).encode()) for w in ("one", "two"))
    path = tmp_path / f"c.txt{compression}"
    assert len(corpus(write(path, first + second))) == 1000
    damaged = {
        "head of the second stream": first + b"?" + second[1:],
        "last byte of the second stream": first + second[:-1] + b"?",
        "second stream cut": first + second[: len(second) // 2],
        "second stream cut in its head": first + second[:3],
        "garbage behind": first + second + b"garbage",
        "one byte behind": first + b"?",
    }
    for name, content in damaged.items():
        with pytest.raises(UserError, match="is truncated or broken"):
            raise AssertionError(f"{name}: {len(corpus(write(path, content)))} rows")


@pytest.mark.parametrize("compression", [".gz", ".xz"])
def test_zeros_between_streams_are_padding(tmp_path: Path, compression: str) -> None:
    one, two = COMPRESS[compression](b"one a\n"), COMPRESS[compression](b"two b\n")
    assert len(corpus(write(tmp_path / f"c.txt{compression}", one + bytes(8) + two + bytes(4)))) == 2


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it does not fill the memory."""
    monkeypatch.setattr(files, "LONGEST_LINE", 100_000)
    (source,) = find_sources([write(tmp_path / "c.txt", f"a\n{'x' * 300_000}\nlast")])
    assert list(map(len, lines(source))) == [2, 100_001, 4]


def test_files_behind_a_url_are_those_of_this_machine(tmp_path: Path, memory: AbstractFileSystem) -> None:
    """Every kind, in a folder and below it: the same order, rows, report and key."""
    for number, (extension, compression) in enumerate(product((".txt", ".jsonl", ".csv", ".tsv"), COMPRESS)):
        content = table(extension, [f"{sentence} {number}" for sentence in SENTENCES])
        write(tmp_path / f"in/{number % 3}/c{number}{extension}{compression}", COMPRESS[compression](content))
    pq.write_table(pa.table({"text": ["from parquet", "and more"]}), tmp_path / "in/a.parquet")
    write(tmp_path / "in/deep/er/b.html", "<p>From a page.")
    write(tmp_path / "in/p.png", "left out")
    write(tmp_path / "in/.git/config.txt", "left out")
    memory.put(str(tmp_path / "in"), "/in", recursive=True)
    here, there = corpus(tmp_path / "in"), corpus("memory://in")
    assert texts(there) == texts(here)
    numbered = [f"{sentence} {number}" for number in range(16) for sentence in SENTENCES]
    assert sorted(texts(here)) == sorted([*numbered, "from parquet", "and more", "From a page."])
    assert here.dataset["label"][:] == list(range(16 * 4 + 3))
    assert here.dataset.cache_files, "the data set lies in a file, not in memory"
    assert there.key == here.key
    for place, opened in (("memory://in", there), (tmp_path / "in", here)):
        assert opened.report.notes == (not_read([place]),) == ("files not read: 1 .png, 1 hidden",)
    assert [name.removeprefix("memory:///in") for name in there.report.files] == [
        name.removeprefix(str(tmp_path / "in")) for name in here.report.files
    ]
    starred = corpus("memory://in/1/c*z*")
    assert starred.key == corpus(*sorted((tmp_path / "in/1").glob("c*z*"))).key


def test_a_file_behind_a_url_is_read_once_until_it_changes(
    tmp_path: Path, memory: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = list[str](), RemoteFile.open
    monkeypatch.setattr(RemoteFile, "open", lambda file: opened.append(file.url) or real(file))
    memory.pipe_file("/a.txt", b"one text\ntwo text\n")
    keys = {corpus("memory://a.txt").key for _ in range(2)}
    assert opened == ["memory://a.txt"]
    memory.pipe_file("/a.txt", b"one text\nsix text\n")
    assert corpus("memory://a.txt").key not in keys


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        ([], "no text was named"),
        ([""], "no text was named"),
        (["absent.txt"], "absent.txt does not exist: check the path"),
        (["nothing"], "nothing holds no file of text: supported: .txt"),
        (["memory://in"], "memory://in holds no file of text: supported: .txt"),
    ],
)
def test_no_text_is_one_line(
    tmp_path: Path, memory: AbstractFileSystem, paths: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    memory.pipe_file("/in/a.png", b"x")
    with pytest.raises(UserError) as raised:
        find_sources(paths)
    assert str(raised.value).startswith(problem)
