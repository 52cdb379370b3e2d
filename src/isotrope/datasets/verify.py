"""Whether a file is what it should be: sha256 where it is known, lines where it is not; and if not, what it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from isotrope.datasets.sources import File, data_sources


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a file.

    ``kind`` is "missing", "unreadable", "empty", "swapped", "converted" (Windows line ends), "corrupt"
    (another number of lines) or "changed" (the right number, other text).
    """

    kind: str
    detail: str


def fault(path: Path, file: File) -> Fault | None:
    """What is wrong with the file at ``path``, which should be ``file``; None where nothing is."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe, from which nothing may ever come
        return Fault("unreadable", "not a file")
    try:
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            if file.sha256 == sha256:
                return None
            stream.seek(0)
            lines = sum(1 for _ in stream)
    except (FileNotFoundError, NotADirectoryError):
        return Fault("missing", "not there")
    except OSError as error:
        return Fault("unreadable", error.strerror or type(error).__name__)
    if not file.sha256 and lines == file.lines:
        return None
    return _another(path, file, sha256, lines)


def _another(path: Path, file: File, sha256: str, lines: int) -> Fault:
    """What a file is that is not the one expected."""
    if not lines:
        return Fault("empty", "0 rows")
    for source in data_sources():
        for folder, listed in ((source.folder, source.files), (source.prepared_folder, source.prepared)):
            if name := next((one.name for one in listed if one.sha256 == sha256), None):
                return Fault("swapped", f"it is {folder}/{name}")
    if lines != file.lines:
        return Fault("corrupt", f"{lines} lines, {file.lines} expected")
    if hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest() == file.sha256:
        return Fault("converted", "the right text with Windows line ends")
    return Fault("changed", f"{lines} lines as expected, but other text")
