"""Files of text: which ones a user's paths name, their states, and their lines.

Lines are decompressed, hashed and checked on the way.
"""

import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
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

# Bytes: a longer line is cut here, so that a file without line ends cannot fill the memory.
LONGEST_LINE = 1 << 24
_LINES_BETWEEN_REPORTS = 10_000
_HEAD = 1 << 16  # bytes read at once, and looked at to tell text from a binary file
_PACKED = 1 << 13  # compressed bytes read at once: they may become thousands of times as many
_MOST_BAD_BYTES = 0.2  # share of what is looked at, from which it is not UTF-8
# Objects with decompress, eof and unused_data, for one stream.
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
        if isinstance(self.path, RemoteFile):
            return self.path.size
        return self.path.stat().st_size

    @property
    def header(self) -> str:
        """What counts of a file beside its bytes."""
        header = f"|{self.format}{self.compression}|{self.size}|"
        return f"{header}sentences:{self.split}|" if self.split else header

    def now(self) -> "TextFile":
        """The same file in its present state."""
        path = self.path
        if isinstance(path, RemoteFile):
            path = path.now()
        return replace(self, path=path, state=_state(path))

    def open(self) -> Any:
        """Its bytes, as they are stored."""
        if isinstance(self.path, RemoteFile):
            return self.path.open()
        return self.path.open("rb", buffering=0)

    def blocks(self, file: Any, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes of the opened file, which are hashed on the way."""
        if self.total is not None:
            self.total.update(self.header.encode())
        for block in iter(partial(file.read, size), b""):
            if self.total is not None:
                self.total.update(block)
            yield block


def find_sources(paths: Iterable[Path | str], split: str | None = None) -> list[TextFile]:
    """The files of text that the paths name, in their order.

    A folder gives all that it holds, recursively and sorted. A path may be a URL: see
    `isotrope.store.remote`. Hidden files and files of other kinds in a folder are passed over, and
    `not_read` counts them. ``split`` has the texts split into sentences: see
    `isotrope.text.split.language_of`.

    Raises:
        UserError: no path, a folder without text, one that cannot be read, or the path of a file
            that is not text.
    """
    language = None if split is None else language_of(split)
    names = list(map(str, paths))
    # An unset variable of the shell would mean the present folder.
    if not names or "" in names:
        raise UserError("no text was named", f"give a file or a folder; {SUPPORTED}", "no-texts")
    sources = []
    for name in names:
        files = [file for file in _inside(name) if isinstance(file, TextFile)]
        if not files:
            problem = f"{without_secrets(name)} holds no file of text"
            raise UserError(problem, SUPPORTED, "no-texts")
        sources.extend(files)
    return [replace(source, split=language) for source in sources]


def not_read(paths: Iterable[Path | str]) -> str:
    """A line on what `find_sources` leaves out of folders, by endings; "" if it is nothing."""
    left_out = Counter[str]()
    for name in paths:
        for source in _inside(str(name)):
            if isinstance(source, str):
                left_out[source] += 1
    kinds = [f"{count:,} {kind}" for kind, count in sorted(left_out.items())]
    return f"files not read: {', '.join(kinds)}" if kinds else ""


def _inside(name: str) -> Iterator[TextFile | str]:
    """The sorted files that a path names: how each is read, or why not."""
    if is_url(name):
        for file in remote_files(name):
            is_hidden = "/." in f"/{file.inside}"
            is_named = not file.inside
            yield "hidden" if is_hidden else _source(file, is_named)
        return
    path = Path(name)
    with reading_errors(path):
        if not path.exists():
            raise UserError(f"{path} does not exist", "check the path", "missing-path")
        if path.is_dir():
            yield from _inside_folder(path)
        else:
            yield _source(path, named=True)


def _inside_folder(folder: Path) -> Iterator[TextFile | str]:
    """The files in a folder and below it. Links to folders are not followed."""
    _check_readable(folder)
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        is_hidden = "/." in f"/{inside}"
        if not path.is_dir():
            yield "hidden" if is_hidden else _source(path)
        elif not is_hidden:
            with reading_errors(path):
                _check_readable(path)
            if path.is_symlink():
                yield "linked folder"


def _check_readable(folder: Path) -> None:
    """Raise OSError for a folder that cannot be read, which rglob passes over."""
    os.scandir(folder).close()


def _source(path: Location, named: bool = False) -> TextFile | str:
    """How a file is read; its ending if it is not a file of text.

    The latter is an error if the user named it.
    """
    name = path.name.lower()
    compression = next(filter(name.endswith, COMPRESSIONS), "")
    _, dot, ending = name.removesuffix(compression).rpartition(".")
    suffix = dot + ending
    format = OTHER_NAMES.get(suffix, suffix)

    is_file = isinstance(path, RemoteFile) or path.is_file()
    is_packed_parquet = compression and format == ".parquet"
    if is_file and format in FORMATS and not is_packed_parquet:
        return TextFile(path, format, compression, state=_state(path))
    if named:
        raise UserError(f"{path} is not a file of text", SUPPORTED, "not-text")
    ending = Path(name).suffix
    return printable(ending) or "no ending"


def _state(path: Location) -> tuple[Any, ...]:
    if isinstance(path, RemoteFile):
        return path.url, path.size, *path.version
    now = path.stat()
    return str(path.absolute()), now.st_size, now.st_mtime_ns, now.st_ino


@contextmanager
def reading_errors(path: object) -> Iterator[None]:
    """Turn what can go wrong in reading a file into a UserError that names it."""
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
    """The lines of a text file with their ends, decompressed.

    Bytes that are not UTF-8 become lone surrogates.

    Raises:
        UserError: the file is empty, broken, cannot be read, or is not text in UTF-8.
    """
    with reading_errors(source), source.open() as file:
        blocks = _unpacked_blocks(source, file)
        head = next(blocks, b"")
        _check_is_text(source, head)
        size = source.size
        encoding = "utf-8-sig"  # the first line may begin with a byte-order mark
        all_lines = _split(chain([head], blocks))
        for number, line in enumerate(all_lines, start=1):
            if number % _LINES_BETWEEN_REPORTS == 0:
                tell("read", file.tell(), size, "bytes")
            yield line.decode(encoding, "surrogateescape")
            encoding = "utf-8"


def _unpacked_blocks(source: TextFile, file: Any) -> Iterator[bytes]:
    """The bytes of an opened file, decompressed, in blocks that are not empty."""
    if not source.compression:
        return source.blocks(file, _HEAD)
    packed = source.blocks(file, _PACKED)
    return filter(None, _unpacked(packed, _STREAMS[source.compression]))


def _check_is_text(source: TextFile, head: bytes) -> None:
    """Check the first bytes of a file."""
    if not head:
        remedy = "remove it or give a file with one sentence a line"
        raise UserError(f"{source} is empty", remedy, "empty-file")
    text = head[:_HEAD].decode("utf-8", "surrogateescape")
    bad_bytes = sum("\udc80" <= letter <= "\udcff" for letter in text)
    if "\0" in text or bad_bytes > _MOST_BAD_BYTES * len(text):
        remedy = "give a text file, or convert it (for example with iconv)"
        raise UserError(f"{source} is not text in UTF-8", remedy, "not-utf-8")


def _split(blocks: Iterable[bytes]) -> Iterator[bytearray]:
    line = bytearray()  # grows in place: a file without line ends would be copied again and again
    for block in blocks:
        first, *following = block.split(b"\n")
        line += first[: LONGEST_LINE - len(line)]
        for next_line in following:
            yield line + b"\n"
            line = bytearray(next_line[:LONGEST_LINE])
    if line:
        yield line


def _unpacked(blocks: Iterator[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The bytes of all streams of a compressed file.

    The libraries' own readers accept damaged .xz and .zst files.
    """
    stream = new()
    for block in blocks:
        while block:
            if stream.eof:
                stream = new()
            yield stream.decompress(block)
            block = b""
            if stream.eof:
                block = stream.unused_data.lstrip(b"\0")  # zeros may fill up a stream
    if not stream.eof:
        raise EOFError("it ends within a compressed stream")
