"""Files of text: which ones a user's paths name, their states, and their lines: hashed,
decompressed, checked.
"""

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
SUPPORTED = (
    "supported: .txt, .jsonl, .csv, .tsv, .md, .html (each also with .gz, .xz or .zst) and .parquet"
)
COMPRESSIONS = (".gz", ".xz", ".zst")
ENDINGS = (*FORMATS, *OTHER_NAMES, *COMPRESSIONS)
try:
    from zstandard import ZstdError
except ImportError:  # it comes with the extra "text"
    ZstdError = EOFError  # type: ignore[misc, assignment]
BROKEN = (EOFError, lzma.LZMAError, zlib.error, ZstdError, pa.ArrowException)

# bytes: a longer line is cut here, so that a file without line ends cannot fill the memory
LONGEST_LINE = 1 << 24
_TOLD = 10_000  # lines between two words on how far the reading is
_HEAD = 1 << 16  # bytes read at once, and looked at to tell text from a binary file
_PACKED = 1 << 13  # compressed bytes read at once: they may become thousands of times as many
# objects with decompress, eof and unused_data, for one stream
_STREAMS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: (
        needs("text", "zstandard").ZstdDecompressor(max_window_size=1 << 31).decompressobj()
    ),
}

Location = Path | RemoteFile  # where a file lies: on this machine or behind a URL


@dataclass(frozen=True, slots=True)
class TextFile:
    """One file of text."""

    path: Location
    format: str  # ".txt", …
    compression: str  # "" or ".gz", …
    # the language by whose rules texts are split into sentences; None: they stay whole
    split: str | None = None
    name: str = ""  # what messages call it; "": its path
    # what changes when somebody writes the file, as it was when the file was found
    state: tuple[Any, ...] = ()
    # hashes what is read
    total: xxhash.xxh3_128 | None = field(default=None, compare=False, repr=False)

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
        """The same file in its present state."""
        path = self.path.now() if isinstance(self.path, RemoteFile) else self.path
        return replace(self, path=path, state=_state(path))

    def open(self) -> Any:
        """Its bytes, as they are stored."""
        return (
            self.path.open()
            if isinstance(self.path, RemoteFile)
            else self.path.open("rb", buffering=0)
        )

    def blocks(self, file: Any, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes of the opened file, which are hashed on the way."""
        if self.total is not None:
            self.total.update(self.header.encode())
        while block := file.read(size):
            if self.total is not None:
                self.total.update(block)
            yield block


def find_sources(paths: Iterable[Path | str], split: str | None = None) -> list[TextFile]:
    """The files of text that the paths name, in their order; a folder gives all that it holds,
    recursively and sorted.

    A path may be a URL: see `isotrope.store.remote`. Hidden files and files of other kinds in a
    folder are passed over, and `not_read` counts them. Named directly they are a UserError, as is a
    folder without text, or one that cannot be read. ``split`` has the texts split into sentences:
    see `isotrope.text.split.language_of`.
    """
    language, sources, paths = (
        language_of(split) if split is not None else None,
        list[TextFile](),
        list(paths),
    )
    # an unset variable of the shell would mean the present folder
    if not paths or not all(map(str, paths)):
        raise UserError("no text was named", "give a file or a folder; " + SUPPORTED, "no-texts")
    for name in paths:
        read = [replace(how, split=language) for how in _inside(name) if isinstance(how, TextFile)]
        if not read:
            raise UserError(
                f"{without_secrets(str(name))} holds no file of text", SUPPORTED, "no-texts"
            )
        sources += read
    return sources


def not_read(paths: Iterable[Path | str]) -> str:
    """A line on what `find_sources` leaves out of the folders among the paths, by endings; empty if
    it is nothing.
    """
    left = Counter(how for name in paths for how in _inside(name) if isinstance(how, str))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left.items()))
    return f"files not read: {kinds}" if kinds else ""


def _inside(name: Path | str) -> Iterator[TextFile | str]:
    """The sorted files that a path names: how each is read, or why not. Links to folders are not
    followed.
    """
    if is_url(name):
        for file in remote_files(str(name)):
            yield "hidden" if "/." in f"/{file.inside}" else _source(file, named=not file.inside)
        return
    path = Path(name)
    with reading_errors(path):
        if not path.exists():
            raise UserError(f"{path} does not exist", "check the path", "missing-path")
        if not path.is_dir():
            yield _source(path, named=True)
            return
        os.scandir(path).close()
        for inner in sorted(path.rglob("*")):
            hidden, is_folder = "/." in f"/{inner.relative_to(path).as_posix()}", inner.is_dir()
            if hidden and not is_folder:
                yield "hidden"
            elif not hidden and is_folder:
                with reading_errors(inner):
                    os.scandir(inner).close()  # rglob passes over a folder that cannot be read
                if inner.is_symlink():
                    yield "linked folder"
            elif not hidden:
                yield _source(inner)


def _source(path: Location, named: bool = False) -> TextFile | str:
    """How a file is read; its ending if it is not a file of text, which is an error if the user
    named it.
    """
    suffixes = ["", *(f".{suffix}" for suffix in path.name.lower().split(".")[1:])]
    compression = suffixes.pop() if suffixes[-1] in COMPRESSIONS else ""
    format = OTHER_NAMES.get(suffixes[-1], suffixes[-1])
    is_file = isinstance(path, RemoteFile) or path.is_file()
    if not is_file or format not in FORMATS or (compression and format == ".parquet"):
        if named:
            raise UserError(f"{path} is not a file of text", SUPPORTED, "not-text")
        return printable(Path(path.name).suffix.lower()) or "no ending"
    return TextFile(path, format, compression, state=_state(path))


def _state(path: Location) -> tuple[Any, ...]:
    if isinstance(path, RemoteFile):
        return path.url, path.size, *path.version
    now = path.stat()
    return str(path.absolute()), now.st_size, now.st_mtime_ns, now.st_ino


@contextmanager
def reading_errors(path: object) -> Iterator[None]:
    """Turns what can go wrong in reading a file into a UserError that names it."""
    try:
        yield
    except (OSError, *BROKEN) as error:
        reason = getattr(error, "strerror", None) or error
        wrong = "is truncated or broken" if isinstance(error, BROKEN) else "cannot be read"
        raise UserError(
            f"{path} {wrong} ({reason})",
            "check the file, or make or fetch it again",
            "damaged-file",
        ) from error


def lines(source: TextFile) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone
    surrogates.
    """
    with reading_errors(source), source.open() as file:
        new, size = _STREAMS.get(source.compression), source.size
        stored = source.blocks(file, _PACKED if new else _HEAD)
        blocks = filter(None, _unpacked(stored, new) if new else stored)
        head = next(blocks, b"")
        if not head:
            raise UserError(
                f"{source} is empty",
                "remove it or give a file with one sentence a line",
                "empty-file",
            )
        begun = head[:_HEAD].decode("utf-8", "surrogateescape")
        if "\0" in begun or sum("\udc80" <= letter <= "\udcff" for letter in begun) > 0.2 * len(
            begun
        ):
            raise UserError(
                f"{source} is not text in UTF-8",
                "give a text file, or convert it (for example with iconv)",
                "not-utf-8",
            )
        for number, line in enumerate(_split(chain([head], blocks)), start=1):
            if number % _TOLD == 0:
                tell("read", file.tell(), size, "bytes")
            yield line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _split(blocks: Iterable[bytes]) -> Iterator[bytearray]:
    line = bytearray()  # grows in place: a file without line ends would be copied again and again
    for block in blocks:
        first, *others = block.split(b"\n")
        line += first[: LONGEST_LINE - len(line)]
        for other in others:
            yield line + b"\n"
            line = bytearray(other[:LONGEST_LINE])
    if line:
        yield line


def _unpacked(blocks: Iterator[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The bytes of all streams of a compressed file. The libraries' own readers accept damaged .xz
    and .zst files.
    """
    stream = new()
    for block in blocks:
        while block:
            if stream.eof:
                stream = new()
            yield stream.decompress(block)
            # zeros may fill up a stream
            block = stream.unused_data.lstrip(b"\0") if stream.eof else b""
    if not stream.eof:
        raise EOFError("it ends within a compressed stream")
