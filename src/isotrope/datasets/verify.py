"""Whether a file is what it should be: sha256 where it is known, lines where it is not; and if not, what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from isotrope.datasets.sources import File, data_sources
from isotrope.store.atomic import new_file

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a file.

    ``kind`` is "missing", "unreadable", "empty", "swapped", "converted" (Windows line ends), "corrupt"
    (another number of lines) or "changed" (the right number, other text).
    """

    kind: str
    detail: str


class WrongFile(Exception):
    """What was written is not the file expected."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.kind)


@contextmanager
def new_verified(path: Path, file: File) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` if it is ``file``.

    Raises:
        WrongFile: it is not; the place is as it was.
    """
    with new_file(path) as out:
        yield out
        out.flush()
        if wrong := fault(Path(out.name), file):
            raise WrongFile(wrong)


def fault(path: Path, file: File) -> Fault | None:
    """What is wrong with the file at ``path``, which should be ``file``; None where nothing is."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe, from which nothing may ever come
            return Fault("unreadable", "not a file")
        seen = file_facts(path)
    except (FileNotFoundError, NotADirectoryError):
        return Fault("missing", "not there")
    except OSError as error:
        return Fault("unreadable", error.strerror or type(error).__name__)
    if (seen.sha256 == file.sha256) if file.sha256 else (seen.lines == file.lines):
        return None
    if not seen.size:
        return Fault("empty", "0 rows")
    other = _names().get(seen.sha256)
    if other:
        return Fault("swapped", f"it is {other}")
    if seen.unix_sha256 == file.sha256:
        return Fault("converted", "the right text with Windows line ends")
    if seen.lines != file.lines:
        return Fault("corrupt", f"{seen.lines} lines, {file.lines} expected")
    return Fault("changed", f"{seen.lines} lines as expected, but other text")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file as it is; ``unix_sha256`` is that of its bytes with Unix line ends."""

    size: int
    lines: int
    sha256: str
    unix_sha256: str


def file_facts(path: Path) -> FileFacts:
    """Read the file once, in constant memory; OSError where it cannot be read."""
    digest, unix, size, lines, last, held = hashlib.sha256(), hashlib.sha256(), 0, 0, b"\n", b""
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            size, lines, last = size + len(chunk), lines + chunk.count(b"\n"), chunk[-1:]
            text = held + chunk
            held = b"\r" if text.endswith(b"\r") else b""  # its "\n" may begin the next chunk
            unix.update(text[: len(text) - len(held)].replace(b"\r\n", b"\n"))
    unix.update(held)
    return FileFacts(size, lines + (last != b"\n"), digest.hexdigest(), unix.hexdigest())


@cache
def _names() -> dict[str, str]:
    """sha256 -> the file that has it."""
    found: dict[str, str] = {}
    for source in data_sources():
        for folder, listed in ((source.folder, source.files), (source.prepared_folder, source.prepared)):
            for file in listed:
                if file.sha256:
                    found.setdefault(file.sha256, f"{folder}/{file.name}")
    return found
