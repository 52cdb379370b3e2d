"""Files of text: which ones a user's paths name, their states, and their lines: hashed, decompressed, checked."""

import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from isotrope.console.progress import tell
from isotrope.errors import UserError, needs, printable
from isotrope.store.remote import RemoteFile, is_url, remote_files, without_secrets
from isotrope.text.split import language_of

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".md", ".html")
OTHER_NAMES = {".markdown": ".md", ".htm": ".html"}
SUPPORTED = "supported: .txt, .jsonl, .csv, .tsv, .md, .html (each also with .gz, .xz or .zst) and .parquet"
COMPRESSIONS = (".gz", ".xz", ".zst")
ENDINGS = (*FORMATS, *OTHER_NAMES, *COMPRESSIONS)
try:
    from zstandard import ZstdError
except ImportError:  # it comes with the extra "text"
    ZstdError = EOFError  # type: ignore[misc, assignment]
BROKEN = (EOFError, lzma.LZMAError, zlib.error, ZstdError, pa.ArrowException)

LONGEST_LINE = 1 << 24  # bytes: a longer line is cut here, so that a file without line ends cannot fill the memory
_TOLD = 10_000  # lines between two words on how far the reading is
_HEAD = 1 << 16  # bytes read at once, and looked at to tell text from a binary file
_PACKED = 1 << 13  # compressed bytes read at once: they may become thousands of times as many
_STREAMS: dict[str, Callable[[], Any]] = {  # objects with decompress, eof and unused_data, for one stream
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: needs("text", "zstandard").ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}

Location = Path | RemoteFile  # where a file lies: on this machine or behind a URL


@dataclass(frozen=True, slots=True)
class TextFile:
    """One file of text."""

    path: Location
    format: str  # ".txt", …
    compression: str  # "" or ".gz", …
    split: str | None = None  # the language by whose rules texts are split into sentences; None: they stay whole
    name: str = ""  # what messages call it; "": its path
    state: tuple[Any, ...] = ()  # what changes when somebody writes the file, as it was when the file was found
    total: xxhash.xxh3_128 | None = field(default=None, compare=False, repr=False)  # hashes what is read

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def size(self) -> int:
        """In bytes, as they are stored."""
        return self.path.size if isinstance(self.path, RemoteFile) else self.path.stat().st_size

    @property
    def header(self) -> str:
        """What counts of a file beside its bytes."""
        split = "" if self.split is None else f"sentences:{self.split}|"
        return f"|{self.format}{self.compression}|{self.size}|{split}"

    def now(self) -> "TextFile":
        """The same file in its present state. A store may say more of one file than of each in a list."""
        path = self.path.now() if isinstance(self.path, RemoteFile) else self.path
        return replace(self, path=path, state=_state(path))

    def open(self) -> Any:
        """Its bytes, as they are stored."""
        _refuse_special(self.path)
        return self.path.open() if isinstance(self.path, RemoteFile) else self.path.open("rb", buffering=0)

    def blocks(self, file: Any, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes of the opened file, which are hashed on the way."""
        if self.total is not None:
            self.total.update(self.header.encode())
        while block := file.read(size):
            if self.total is not None:
                self.total.update(block)
            yield block


def find_sources(paths: Iterable[Path | str], split: str | None = None) -> list[TextFile]:
    """The files of text that the paths name, in their order; a folder gives all that it holds, recursively and sorted.

    A path may be a URL: of a file, of a folder, or with a ``*`` (see `isotrope.store.remote`).

    In a folder, hidden files and files of other kinds are passed over, and `not_read` counts them; named directly
    they are an error. ``split`` has their texts split into sentences: see `isotrope.text.split.language_of`.

    Raises:
        UserError: no path, an unknown split, a missing file, an unknown ending, a folder that cannot be read or holds
            no such file.
    """
    language, sources, paths = language_of(split) if split is not None else None, list[TextFile](), list(paths)
    if not paths or not all(map(str, paths)):  # an unset variable of the shell would mean the present folder
        raise UserError("no text was named", "give a file or a folder; " + SUPPORTED)
    for name in paths:
        read = [replace(how, split=language) for how in _inside(name) if isinstance(how, TextFile)]
        if not read:
            raise UserError(f"{without_secrets(str(name))} holds no file of text", SUPPORTED)
        sources += read
    return sources


def not_read(paths: Iterable[Path | str]) -> str:
    """A line on what `find_sources` leaves out of the folders among the paths, by endings; empty if it is nothing."""
    left = Counter(how for name in paths for how in _inside(name) if isinstance(how, str))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left.items()))
    return f"files not read: {kinds}" if kinds else ""


def _inside(name: Path | str) -> Iterator[TextFile | str]:
    """The sorted files that a path names: how each is read, or why it is passed over.

    Symbolic links to folders are not followed, so that there is no endless walk.
    """
    path = Path(name)
    if is_url(name):
        for file in remote_files(str(name)):
            yield "hidden" if _hidden(Path(file.inside)) else _source(file, named=not file.inside)
        return
    with reading_errors(name):
        if not path.exists():
            raise UserError(f"{path} does not exist", "check the path")
        if not path.is_dir():
            _refuse_special(path)
            yield _source(path, named=True)
            return
        for inner in (path, *sorted(path.rglob("*"))):
            if _hidden(inner.relative_to(path)):
                if inner.is_file():
                    yield "hidden"
            elif inner.is_dir():
                with reading_errors(inner):
                    os.scandir(inner).close()  # rglob passes over a folder that cannot be read
                if inner.is_symlink() and inner != path:
                    yield "linked folder"
            else:
                yield _source(inner) if inner.exists() else "broken link"


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _source(path: Location, named: bool = False) -> TextFile | str:
    """How a file is read; its ending if it is not a file of text, which is an error if the user named it."""
    suffixes = ["", *(f".{suffix}" for suffix in path.name.lower().split(".")[1:])]
    compression = suffixes.pop() if suffixes[-1] in COMPRESSIONS else ""
    format = OTHER_NAMES.get(suffixes[-1], suffixes[-1])
    is_file = isinstance(path, RemoteFile) or path.is_file()
    if not is_file or format not in FORMATS or (compression and format == ".parquet"):
        if named:
            raise UserError(f"{path} has the unknown ending {''.join(Path(path.name).suffixes[-2:])!r}", SUPPORTED)
        return printable(Path(path.name).suffix.lower()) or "no ending"
    return TextFile(path, format, compression, state=_state(path))


def _state(path: Location) -> tuple[Any, ...]:
    if isinstance(path, RemoteFile):
        return path.url, path.size, *path.version
    now = path.stat()
    return str(path.absolute()), now.st_size, now.st_mtime_ns, now.st_ino


def _refuse_special(path: Location) -> None:
    if isinstance(path, Path) and path.exists() and not path.is_file():
        raise UserError(f"{path} is a pipe or a device, not a file", "save the text in a file first")


@contextmanager
def reading_errors(path: object) -> Iterator[None]:
    """Turns what can go wrong in reading a file into a UserError that names it."""
    try:
        yield
    except (OSError, *BROKEN) as error:
        reason = getattr(error, "strerror", None) or error
        problem = f"{path} {'is truncated or broken' if isinstance(error, BROKEN) else 'cannot be read'} ({reason})"
        raise UserError(problem, "check the file, or make or fetch it again") from error


def lines(source: TextFile) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone surrogates."""
    with reading_errors(source), source.open() as file:
        new, size = _STREAMS.get(source.compression), source.size
        stored = source.blocks(file, _PACKED if new else _HEAD)
        blocks = filter(None, _unpacked(stored, new) if new else stored)
        head = next(blocks, b"")
        _check_text(source, head[:_HEAD])
        for number, line in enumerate(_split(chain([head], blocks)), start=1):
            if number % _TOLD == 0:
                tell("read", file.tell(), size, "bytes")
            yield line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _split(blocks: Iterable[bytes]) -> Iterator[bytearray]:
    line = bytearray()
    for block in blocks:
        first, *others = block.split(b"\n")
        line += first[: LONGEST_LINE - len(line)]
        for other in others:
            yield line + b"\n"
            line = bytearray(other[:LONGEST_LINE])
    if line:
        yield line


def _check_text(path: object, head: bytes) -> None:
    if not head:
        raise UserError(f"{path} is empty", "remove it or give a file with one sentence a line")
    text = head.decode("utf-8", "surrogateescape")
    undecodable = sum("\udc80" <= character <= "\udcff" for character in text)
    if b"\0" in head or undecodable > 0.2 * len(text):
        remedy = "give a text file, or convert it to UTF-8 (for example with iconv)"
        raise UserError(f"{path} is not text in UTF-8", remedy)


def _unpacked(blocks: Iterator[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The bytes of all streams of a compressed file.

    The libraries' own readers accept a truncated .zst, and an .xz with a damaged second stream or with other bytes
    behind the last one.
    """
    stream = new()
    for block in blocks:
        while block:
            if stream.eof:
                stream = new()
            yield stream.decompress(block)
            block = stream.unused_data.lstrip(b"\0") if stream.eof else b""  # zeros may fill up a stream
    if not stream.eof:
        raise EOFError("it ends within a compressed stream")
