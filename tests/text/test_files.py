"""Files and folders, compressed or not, and what is no text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora import COMPRESS, SENTENCES, table, texts, write
from isotrope.errors import UserError
from isotrope.text.corpus import Corpus, open_corpus
from isotrope.text.files import TextFile, find_sources, lines


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("extension", [".txt", ".jsonl", ".csv", ".tsv"])
def test_every_format_and_compression_gives_the_same_rows(
    tmp_path: Path, corpus: Callable[..., Corpus], extension: str, compression: str
) -> None:
    path = write(tmp_path / f"c{extension}{compression}", COMPRESS[compression](table(extension, SENTENCES)))
    opened = corpus(path)
    assert texts(opened) == SENTENCES
    assert opened.dataset["label"][:] == [0, 1, 2, 3]
    assert (opened.columns, len(opened), opened.report.kept) == (("text",), 4, 4)
    assert opened.dataset.cache_files, "the data set lies in a file, not in memory"


def test_folders_and_files_mix_and_are_read_in_order(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    write(tmp_path / "in/b.txt", "from b\n")
    write(tmp_path / "in/a/z.tsv", "sentence\tn\nfrom z\t1\n")
    write(tmp_path / "in/notes.docx", "not read")
    write(tmp_path / "in/.hidden.txt", "not read")
    single = write(tmp_path / "first.jsonl", '{"x": "from first"}\n')
    opened = corpus(single, tmp_path / "in")
    assert texts(opened) == ["from first", "from z", "from b"]
    assert len(opened.report.files) == 3


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


def test_many_zstd_frames_are_read_to_the_end(tmp_path: Path, corpus: Callable[..., Corpus]) -> None:
    frames = b"".join(COMPRESS[".zst"](f"sentence {i}\n".encode() * 3000) for i in range(50))
    assert texts(corpus(write(tmp_path / "c.txt.zst", frames))) == [f"sentence {i}" for i in range(50)]


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_all_streams_are_read_and_any_damage_is_an_error(
    tmp_path: Path, corpus: Callable[..., Corpus], compression: str
) -> None:
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
def test_zeros_between_streams_are_padding(tmp_path: Path, corpus: Callable[..., Corpus], compression: str) -> None:
    one, two = COMPRESS[compression](b"one a\n"), COMPRESS[compression](b"two b\n")
    assert len(corpus(write(tmp_path / f"c.txt{compression}", one + bytes(8) + two + bytes(4)))) == 2


@pytest.mark.parametrize("name", ["c.txt", "c.csv", "c.jsonl"])
def test_lines_that_end_with_a_carriage_return_alone(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="carriage return alone"):
        open_corpus(write(tmp_path / name, "text\rone a\rtwo b\r"), cache=tmp_path / "cache")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices are POSIX")
def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "device.txt").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe.txt", tmp_path / "device.txt", Path("/dev/null")):
        with pytest.raises(UserError, match="is a pipe or a device"):
            find_sources([path])
        with pytest.raises(UserError, match="is a pipe or a device"):
            next(lines(TextFile(path, ".txt", "")))


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        find_sources([tmp_path / ("x" * 5000 + ".txt")])
