"""The lines of a text file, decompressed, and checked to be text."""

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from isotrope.console.progress import tell
from isotrope.errors import UserError, needs
from isotrope.text.files import TextFile, reading_errors

HEAD = 1 << 16  # bytes looked at to tell text from a binary file
TOLD = 10_000  # lines between two words on how far the reading is
LONGEST_LINE = 1 << 24  # bytes: a longer line is cut here, so that a file without line ends cannot fill the memory
_BLOCK = 1 << 13  # compressed bytes read at once: they may become thousands of times as many


def lines(source: TextFile) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone surrogates.

    A line of `LONGEST_LINE` bytes or more is cut there.
    """
    with reading_errors(source), source.open() as file, _unpacked(file, source) as stream:
        _check_text(source, stream.peek(HEAD)[:HEAD])
        number, size = 0, source.size
        while raw := stream.readline(LONGEST_LINE):
            number += 1
            if number % TOLD == 0:
                tell("read", file.tell(), size, "bytes")
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                raw += b"\n"
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _unpacked(file: Any, source: TextFile) -> io.BufferedReader:
    new = DECOMPRESSORS.get(source.compression)
    return io.BufferedReader(Decompressed(file, new) if new else file, HEAD)


def _check_text(path: object, head: bytes) -> None:
    if not head:
        raise UserError(f"{path} is empty", "remove it or give a file with one sentence a line")
    text = head.decode("utf-8", "surrogateescape")
    undecodable = sum("\udc80" <= character <= "\udcff" for character in text)
    if b"\0" in head or undecodable > 0.2 * len(text):
        raise UserError(
            f"{path} is not text in UTF-8", "give a text file, or convert it to UTF-8 (for example with iconv)"
        )


class Decompressed(io.RawIOBase):
    """The bytes of all streams of a compressed file.

    The libraries' own readers accept a truncated .zst, and an .xz with a damaged second stream or with other bytes
    behind the last one.
    """

    def __init__(self, file: Any, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._stream = new()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            if self._stream.eof:
                rest = self._stream.unused_data.lstrip(b"\0")  # zeros may fill up a stream
                while not rest:
                    if not (block := self._file.read(_BLOCK)):
                        return 0
                    rest = block.lstrip(b"\0")
                self._stream = self._new()
            elif not (rest := self._file.read(_BLOCK) or b""):
                raise EOFError("it ends within a compressed stream")
            self._ready = memoryview(self._stream.decompress(rest))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


DECOMPRESSORS: dict[str, Callable[[], Any]] = {  # objects with decompress, eof and unused_data, for one stream
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: needs("text", "zstandard").ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}
