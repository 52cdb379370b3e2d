"""Corpus files: which ones a user's paths name, and their bytes, decompressed and checked."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import xxhash

from isotrope.console.progress import tell
from isotrope.errors import UserError, printable
from isotrope.store.cache import remembered
from isotrope.store.remote import RemoteFile, is_url, local_paths, remote_files, without_secrets
from isotrope.text._decompressed import BROKEN, DECOMPRESSORS, Decompressed
from isotrope.text.split import language_of

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".md", ".html")
COMPRESSIONS = tuple(DECOMPRESSORS)
OTHER_NAMES = {".markdown": ".md", ".htm": ".html"}
SUPPORTED = "supported: .txt, .jsonl, .csv, .tsv, .md, .html (each also with .gz, .xz or .zst) and .parquet"

HEAD = 1 << 16  # bytes looked at to tell text from a binary file
TOLD = 10_000  # lines between two words on how far the reading is
LONGEST_LINE = 1 << 24  # bytes: a longer line is cut here, so that a file without line ends cannot fill the memory


Location = Path | RemoteFile  # where a file lies: on this machine or behind a URL


@dataclass(frozen=True, slots=True)
class TextFile:
    """One corpus file: path, format (".txt", …), compression ("" or ".gz", …), language of a split into sentences."""

    path: Location
    format: str
    compression: str
    split: str | None = None  # "en", …; None: its texts stay whole

    @property
    def size(self) -> int:
        """In bytes, as they are stored."""
        return self.path.size if isinstance(self.path, RemoteFile) else self.path.stat().st_size

    def open(self) -> io.RawIOBase:
        """Its bytes, as they are stored."""
        return self.path.open() if isinstance(self.path, RemoteFile) else self.path.open("rb", buffering=0)


def find_sources(
    paths: Iterable[Path | str], split: str | None = None, may_be_empty: Collection[str] = (".md", ".html")
) -> list[TextFile]:
    """The corpus files that the paths name, in their order; a folder gives all that it holds, recursively and sorted.

    A path may be a URL: of a file, of a folder, or with a ``*`` (see `isotrope.store.remote`).

    In a folder, hidden files and files of other kinds are passed over, and `passed_over` counts them; named directly
    they are an error. ``split`` has their texts split into sentences: see `isotrope.text.split.language_of`. Empty
    files are an error too, except for the formats in ``may_be_empty``: empty pages are common.

    Raises:
        UserError: no path, an unknown split, a missing or empty file, an unknown ending, a folder that cannot be read
            or holds no such file.
    """
    language = None if split is None else language_of(split)
    sources: list[TextFile] = []
    for name in paths:
        if not str(name):  # an unset variable of the shell would mean the present folder
            raise UserError("a corpus path is empty", "give a file or a folder")
        with reading_errors(Path(name)):
            sources += _named_by_url(str(name)) if is_url(name) else _named(Path(name))
    if not sources:
        raise UserError("no corpus was named", "give a file or a folder; " + SUPPORTED)
    for source in sources:
        with reading_errors(source.path):
            if source.size == 0 and source.format not in may_be_empty:
                raise UserError(f"{source.path} is empty", "remove it or give a file with one sentence a line")
    return [replace(source, split=language) for source in sources]


def _named(path: Path) -> list[TextFile]:
    if path.is_dir():  # below it, symbolic links to folders are not followed: no endless walk
        inside = sorted(p for p in path.rglob("*") if not _hidden(p.relative_to(path)))
        for folder in (path, *filter(Path.is_dir, inside)):
            with reading_errors(folder):
                os.scandir(folder).close()  # rglob passes over a folder that cannot be read
        files = filter(Path.is_file, inside)
        found = [source for source in map(_source, files) if source]
        if not found:
            raise UserError(f"the folder {path} holds no corpus file", SUPPORTED)
        return found
    if not path.exists():
        raise UserError(f"{path} does not exist", "check the path of the corpus")
    refuse_special(path)
    return [_source(path) or _unknown(path)]


def _named_by_url(url: str) -> list[TextFile]:
    sources = list[TextFile]()
    for file in remote_files(url):
        if not _hidden(Path(file.inside)) and (source := _source(file) or (None if file.inside else _unknown(file))):
            sources.append(source)
    if not sources:
        raise UserError(f"{without_secrets(url)} holds no corpus file", SUPPORTED)
    return sources


def _unknown(path: Location) -> NoReturn:
    raise UserError(f"{path} has the unknown ending {''.join(Path(path.name).suffixes[-2:])!r}", SUPPORTED)


def passed_over(paths: Iterable[Path | str]) -> dict[str, int]:
    """What `find_sources` leaves out of the folders among the paths: ending, "hidden" or another word -> files."""
    left = Counter[str]()
    paths = list(paths)
    for file in (file for url in paths if is_url(url) for file in remote_files(str(url)) if file.inside):
        if _hidden(Path(file.inside)):
            left["hidden"] += 1
        elif _source(file) is None:
            left[_ending(file)] += 1
    for folder in local_paths(paths):
        for path in folder.rglob("*") if folder.is_dir() else ():
            if _hidden(path.relative_to(folder)):
                left["hidden"] += path.is_file()
            elif path.is_dir():
                left["linked folder"] += path.is_symlink()
            elif path.is_symlink() and not path.exists():
                left["broken link"] += 1
            elif not path.is_file() or _source(path) is None:
                left[_ending(path)] += 1
    return dict(+left)


def _ending(path: Location) -> str:
    return printable(Path(path.name).suffix.lower()) or "no ending"


def not_read(left: Mapping[str, int]) -> str:
    """What `passed_over` counted, as a line; empty if it is nothing."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left.items()))
    return f"files not read: {kinds}" if kinds else ""


def refuse_special(path: Location) -> None:
    """Refuse a pipe, a socket or a device: a run reads its files more than once.

    Raises:
        UserError: it is one.
    """
    if isinstance(path, Path) and path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path} is a pipe or a device, not a file", "save the text in a file first")


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _source(path: Location) -> TextFile | None:
    suffixes = path.name.lower().split(".")[1:]
    compression = f".{suffixes.pop()}" if suffixes and f".{suffixes[-1]}" in COMPRESSIONS else ""
    format = f".{suffixes[-1]}" if suffixes else ""
    format = OTHER_NAMES.get(format, format)
    if format not in FORMATS or (compression and format == ".parquet"):
        return None
    return TextFile(path, format, compression)


@contextmanager
def reading_errors(path: Location) -> Iterator[None]:
    """Turns what can go wrong in reading a file into a UserError that names it."""
    try:
        yield
    except BROKEN as error:
        raise UserError(f"{path} is truncated or broken ({error})", "make or fetch the file again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})", "check the file") from error


def content_checksum(sources: Iterable[TextFile], settings: str) -> str:
    """xxh3 (128 bits, hexadecimal) of the files' formats, sizes, splits and bytes, in order, and of the settings.

    A file behind a URL has the same checksum as its copy on this machine. If all of the files are behind URLs, and
    their stores tell versions, the checksum is remembered: to know it again, the bytes need not come again.
    """
    sources = [_as_it_is_now(source) for source in sources]
    versions = [source.path.version if isinstance(source.path, RemoteFile) else () for source in sources]
    if not all(versions):
        return _checksum(sources, settings)
    files = [(str(source.path), source.size, source.format, source.compression, source.split) for source in sources]
    return str(remembered("contents", [settings, files, versions], lambda: _checksum(sources, settings)))


def _as_it_is_now(source: TextFile) -> TextFile:
    return replace(source, path=source.path.now()) if isinstance(source.path, RemoteFile) else source


def _checksum(sources: Iterable[TextFile], settings: str) -> str:
    total = xxhash.xxh3_128(settings.encode())
    for source in sources:
        with reading_errors(source.path), source.open() as stream:
            size = source.size
            total.update(f"|{source.format}{source.compression}|{size}|".encode())
            total.update(b"" if source.split is None else f"sentences:{source.split}|".encode())
            while block := stream.read(1 << 20):
                total.update(block)
                tell("checked", stream.tell(), size, "bytes")
    return total.hexdigest()


def lines(source: TextFile, *, cut: bool = True) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone surrogates.

    Args:
        source: the file.
        cut: cut a line of `LONGEST_LINE` bytes or more there. False: such a line is an error.

    Raises:
        UserError: a broken archive, a pipe, a file that is binary or in another encoding, nothing in the archive.
    """
    refuse_special(source.path)
    with reading_errors(source.path), source.open() as file, _unpacked(file, source) as stream:
        _check_text(source.path, stream.peek(HEAD)[:HEAD])
        number, size = 0, source.size
        while raw := stream.readline(LONGEST_LINE):
            number += 1
            if number % TOLD == 0:
                tell("read", file.tell(), size, "bytes")
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                if not cut:
                    problem = f"{source.path}:{number} is longer than {LONGEST_LINE:,} bytes"
                    raise UserError(problem, "write one record on each line, and cut very long texts")
                while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                raw += b"\n"
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _unpacked(file: io.RawIOBase, source: TextFile) -> io.BufferedReader:
    new = DECOMPRESSORS.get(source.compression)
    return io.BufferedReader(Decompressed(file, new) if new else file, HEAD)


def _check_text(path: Location, head: bytes) -> None:
    if not head:
        raise UserError(f"{path} is empty", "remove it or give a file with one sentence a line")
    text = head.decode("utf-8", "surrogateescape")
    undecodable = sum("\udc80" <= character <= "\udcff" for character in text)
    if b"\0" in head or undecodable > 0.2 * len(text):
        raise UserError(
            f"{path} is not text in UTF-8", "give a text file, or convert it to UTF-8 (for example with iconv)"
        )
    if b"\n" not in head and b"\r" in head.rstrip(b"\r"):
        problem = f"{path} ends its lines with a carriage return alone"
        raise UserError(problem, "give line feeds (for example with: tr '\\r' '\\n')")
