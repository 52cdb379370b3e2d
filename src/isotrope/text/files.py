"""Files of text: which ones a user's paths name, and their bytes, decompressed and checked."""

import io
import json
import lzma
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from isotrope.errors import UserError, printable
from isotrope.store.atomic import write_json
from isotrope.store.cache import cached
from isotrope.store.remote import RemoteFile, is_url, remote_files, without_secrets
from isotrope.text.split import language_of

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".md", ".html")
COMPRESSIONS = (".gz", ".xz", ".zst")
try:
    from zstandard import ZstdError
except ImportError:  # it comes with the extra "text"
    ZstdError = EOFError  # type: ignore[misc, assignment]
BROKEN = (EOFError, lzma.LZMAError, zlib.error, ZstdError, pa.ArrowException)
OTHER_NAMES = {".markdown": ".md", ".htm": ".html"}
_TICK = 0.02  # seconds between two times of files
SUPPORTED = "supported: .txt, .jsonl, .csv, .tsv, .md, .html (each also with .gz, .xz or .zst) and .parquet"


Location = Path | RemoteFile  # where a file lies: on this machine or behind a URL


@dataclass(frozen=True, slots=True)
class TextFile:
    """One corpus file: path, format (".txt", …), compression ("" or ".gz", …), language of a split into sentences."""

    path: Location
    format: str
    compression: str
    split: str | None = None  # "en", …; None: its texts stay whole
    name: str = ""  # what messages call it; "": its path
    total: xxhash.xxh3_128 | None = field(default=None, compare=False, repr=False)  # hashes what is read; None: nothing

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def size(self) -> int:
        """In bytes, as they are stored."""
        return self.path.size if isinstance(self.path, RemoteFile) else self.path.stat().st_size

    @property
    def state(self) -> tuple[Any, ...]:
        """What changes when somebody writes the file, without its bytes."""
        if isinstance(self.path, RemoteFile):
            return self.path.url, self.path.size, *self.path.version
        now = self.path.stat()
        return str(self.path.absolute()), now.st_size, now.st_mtime_ns, now.st_ino

    @property
    def fresh(self) -> float:
        """Seconds until another writing would show in its state: the clock of a file system stands still for some."""
        if isinstance(self.path, RemoteFile):
            return 0.0
        return min(_TICK, self.path.stat().st_mtime + _TICK - time.time())

    @property
    def header(self) -> bytes:
        """What counts of a file beside its bytes."""
        split = "" if self.split is None else f"sentences:{self.split}|"
        return f"|{self.format}{self.compression}|{self.size}|{split}".encode()

    def open(self, *, seekable: bool = False) -> io.RawIOBase | io.BufferedReader:
        """Its bytes, as they are stored. What is read is hashed, to the end; a seekable file is hashed first.

        Raises:
            UserError: it is a pipe, a socket or a device, which cannot be read twice.
        """
        _refuse_special(self.path)
        stream: io.RawIOBase | io.BufferedReader
        stream = self.path.open() if isinstance(self.path, RemoteFile) else self.path.open("rb", buffering=0)
        if self.total is None:
            return stream
        self.total.update(self.header)
        if not seekable:
            return _Hashed(stream, self.total)
        while block := stream.read(1 << 20):
            self.total.update(block)
        stream.seek(0)
        return stream


def find_sources(paths: Iterable[Path | str], split: str | None = None) -> list[TextFile]:
    """The corpus files that the paths name, in their order; a folder gives all that it holds, recursively and sorted.

    A path may be a URL: of a file, of a folder, or with a ``*`` (see `isotrope.store.remote`).

    In a folder, hidden files and files of other kinds are passed over, and `passed_over` counts them; named directly
    they are an error. ``split`` has their texts split into sentences: see `isotrope.text.split.language_of`.

    Raises:
        UserError: no path, an unknown split, a missing file, an unknown ending, a folder that cannot be read or holds
            no such file.
    """
    language, sources, paths = None if split is None else language_of(split), list[TextFile](), list(paths)
    if not paths or not all(map(str, paths)):  # an unset variable of the shell would mean the present folder
        raise UserError("no text was named", "give a file or a folder; " + SUPPORTED)
    for name in paths:
        found = list(_inside(name))
        if wrong := next((place for place, how in found if isinstance(how, str) and _is_named(place, name)), None):
            raise UserError(f"{wrong} has the unknown ending {''.join(Path(wrong.name).suffixes[-2:])!r}", SUPPORTED)
        if not (read := [replace(how, split=language) for _, how in found if isinstance(how, TextFile)]):
            raise UserError(f"{without_secrets(str(name))} holds no file of text", SUPPORTED)
        sources += read
    return sources


def passed_over(paths: Iterable[Path | str]) -> dict[str, int]:
    """What `find_sources` leaves out of the folders among the paths: ending, "hidden" or another word -> files."""
    found = ((place, how, name) for name in paths for place, how in _inside(name))
    return dict(Counter(how for place, how, name in found if isinstance(how, str) and not _is_named(place, name)))


def not_read(left: Mapping[str, int]) -> str:
    """What `passed_over` counted, as a line; empty if it is nothing."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left.items()))
    return f"files not read: {kinds}" if kinds else ""


def _inside(name: Path | str) -> Iterator[tuple[Location, TextFile | str]]:
    """The files that a path names, sorted: each with how it is read, or with the word under which it is passed over.

    Symbolic links to folders are not followed, so that there is no endless walk.
    """
    path = Path(name)
    if is_url(name):
        for file in remote_files(str(name)):
            yield file, "hidden" if _hidden(Path(file.inside)) else _source(file) or _ending(file)
        return
    with reading_errors(name):
        if not path.exists():
            raise UserError(f"{path} does not exist", "check the path")
        if not path.is_dir():
            _refuse_special(path)
            yield path, _source(path) or _ending(path)
            return
        for inner in (path, *sorted(path.rglob("*"))):
            if _hidden(inner.relative_to(path)):
                if inner.is_file():
                    yield inner, "hidden"
            elif inner.is_dir():
                with reading_errors(inner):
                    os.scandir(inner).close()  # rglob passes over a folder that cannot be read
                if inner.is_symlink() and inner != path:
                    yield inner, "linked folder"
            elif inner.is_symlink() and not inner.exists():
                yield inner, "broken link"
            else:
                yield inner, (_source(inner) if inner.is_file() else None) or _ending(inner)


def _is_named(place: Location, name: Path | str) -> bool:
    """Whether a file was named itself, and not its folder."""
    return not place.inside if isinstance(place, RemoteFile) else place == Path(name)


def _ending(path: Location) -> str:
    return printable(Path(path.name).suffix.lower()) or "no ending"


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


def content_checksum(sources: Iterable[TextFile], settings: str) -> str:
    """xxh3 (128 bits, hexadecimal) of the files' formats, sizes, splits and bytes, in order, and of the settings.

    Whoever reads the files anyway has the same checksum from `read_once`. A file behind a URL has that of its copy on
    this machine.
    """
    total = xxhash.xxh3_128(settings.encode())
    for source in sources:
        with reading_errors(source):
            if source.size:
                replace(source, total=total).open(seekable=True).close()
    return total.hexdigest()


def read_once(
    sources: Iterable[TextFile],
    settings: str,
    cache: Path,
    write: Callable[[Path, Sequence[TextFile]], None],
    part: str = "",
) -> tuple[Path, str]:
    """What ``write`` makes of the files, and their `content_checksum`, from one reading; later, from none.

    Args:
        sources: the files.
        settings: all else that decides what is made.
        cache: holds a folder of what was made, for each state of the files.
        write: makes it in an empty folder, reading the files to their ends, in order.
        part: says which part of the files is kept, if it is not all.

    Raises:
        UserError: what ``write`` raises; the files changed while they were read.
    """
    sources = [_as_it_is_now(source) for source in sources]
    states = [(source.state, source.header.decode()) for source in sources]
    key = xxhash.xxh3_128_hexdigest(json.dumps([settings, states, part]).encode())

    def make(draft: Path) -> None:
        time.sleep(max([0.0, *(source.fresh for source in sources)]))
        total = xxhash.xxh3_128(settings.encode())
        write(draft, [replace(source, total=total) for source in sources])
        if [_as_it_is_now(source).state for source in sources] != [state for state, _ in states]:
            raise UserError("the files changed while they were read", "wait until they are complete")
        write_json(draft / "checksum.json", total.hexdigest())

    folder = cached(cache / key, make)
    return folder, json.loads((folder / "checksum.json").read_text(encoding="utf-8"))


class _Hashed(io.RawIOBase):
    """A file's bytes in order, which are hashed as they are read; what is left at the end, too."""

    def __init__(self, stream: Any, total: xxhash.xxh3_128) -> None:
        self._stream, self._total = stream, total

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._stream.readinto(buffer) or 0
        self._total.update(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        if not self.closed:
            while block := self._stream.read(1 << 20):
                self._total.update(block)
            self._stream.close()
        super().close()


def _as_it_is_now(source: TextFile) -> TextFile:
    return replace(source, path=source.path.now()) if isinstance(source.path, RemoteFile) else source
