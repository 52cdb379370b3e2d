"""Corpus files: which ones a user's paths name, and their bytes, decompressed and checked."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import xxhash
import zstandard

from isotrope.errors import UserError

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
COMPRESSIONS = (".gz", ".xz", ".zst")
SUPPORTED = "supported: .txt, .jsonl, .csv, .tsv (each also with .gz, .xz or .zst) and .parquet"

PROBE = 1 << 16  # bytes looked at to tell text from a binary file
LONGEST_LINE = 1 << 24  # bytes: a longer line is cut here, so that a file without line ends cannot fill the memory
_BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class Source:
    """One corpus file: its path, its format (".txt", …) and its compression ("" or ".gz", …)."""

    path: Path
    format: str
    compression: str


def find_sources(paths: Iterable[Path | str]) -> list[Source]:
    """The corpus files that the paths name, in their order; a folder gives all that it holds, recursively and sorted.

    Hidden files and files of other kinds are passed over in a folder; named directly they are an error.

    Raises:
        UserError: no path, a missing or empty file, an unknown ending, a folder without a corpus file.
    """
    sources: list[Source] = []
    for name in paths:
        path = Path(name)
        if not str(name):  # an unset variable of the shell would mean the present folder
            raise UserError("a corpus path is empty", "give a file or a folder")
        if path.is_dir():  # and below it, symbolic links to folders are not followed: no endless walk
            files = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path)))
            found = [source for source in map(_source, files) if source]
            if not found:
                raise UserError(f"the folder {path} holds no corpus file", SUPPORTED)
            sources += found
        elif not path.exists():
            raise UserError(f"{path} does not exist", "check the path of the corpus")
        elif (source := _source(path)) is None:
            raise UserError(f"{path} has the unknown ending {''.join(path.suffixes[-2:])!r}", SUPPORTED)
        else:
            sources.append(source)
    if not sources:
        raise UserError("no corpus was named", "give a file or a folder; " + SUPPORTED)
    for source in sources:
        with reading(source.path):
            if source.path.stat().st_size == 0:
                raise UserError(f"{source.path} is empty", "remove it or give a file with one sentence a line")
    return sources


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _source(path: Path) -> Source | None:
    suffixes = path.name.lower().split(".")[1:]
    compression = f".{suffixes.pop()}" if suffixes and f".{suffixes[-1]}" in COMPRESSIONS else ""
    format = f".{suffixes[-1]}" if suffixes else ""
    if format not in FORMATS or (compression and format == ".parquet"):
        return None
    return Source(path, format, compression)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what can go wrong in reading a file into a UserError that names it."""
    try:
        yield
    except _BROKEN as error:
        raise UserError(f"{path} is truncated or broken ({error})", "make or fetch the file again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})", "check the file") from error


def checksum(sources: Iterable[Source], settings: str) -> str:
    """xxh3 (128 bits, hexadecimal) of the files' formats, sizes and bytes, in their order, and of the settings."""
    total = xxhash.xxh3_128(settings.encode())
    for source in sources:
        with reading(source.path), source.path.open("rb") as stream:
            total.update(f"|{source.format}{source.compression}|{source.path.stat().st_size}|".encode())
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def lines(source: Source) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone surrogates.

    Raises:
        UserError: a broken archive, a file that is binary or in another encoding, nothing in the archive.
    """
    with reading(source.path), _open(source) as stream:
        _check_text(source.path, stream.peek(PROBE)[:PROBE])
        first = True
        while raw := stream.readline(LONGEST_LINE):
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                raw += b"\n"
            yield raw.decode("utf-8-sig" if first else "utf-8", "surrogateescape")
            first = False


def _open(source: Source) -> io.BufferedReader:
    raw: Any  # typeshed has no common type for what BufferedReader accepts
    if source.compression == ".gz":
        raw = gzip.GzipFile(source.path, "rb")
    elif source.compression == ".xz":
        raw = lzma.LZMAFile(source.path, "rb")  # noqa: SIM115 - the buffer closes it
    elif source.compression == ".zst":
        raw = _ZstdReader(source.path.open("rb"))
    else:
        raw = source.path.open("rb", buffering=0)
    return io.BufferedReader(raw, PROBE)


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of all frames of a zstd file; zstandard's own reader accepts a truncated file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            block = self._frame.unused_data or self._stream.read(1 << 13)
            if self._frame.eof:
                if not block:
                    return 0
                self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            elif not block:
                raise EOFError("the file ends within a zstd frame")
            self._ready = memoryview(self._frame.decompress(block))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _check_text(path: Path, head: bytes) -> None:
    if not head:
        raise UserError(f"{path} is empty", "remove it or give a file with one sentence a line")
    text = head.decode("utf-8", "surrogateescape")
    undecodable = sum("\udc80" <= character <= "\udcff" for character in text)
    if b"\0" in head or undecodable > 0.2 * len(text):
        raise UserError(
            f"{path} is not text in UTF-8", "give a text file, or convert it to UTF-8 (for example with iconv)"
        )
