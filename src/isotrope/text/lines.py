"""The lines of a text file, hashed as they are stored, decompressed, and checked to be text."""

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from isotrope.console.progress import tell
from isotrope.errors import UserError, needs
from isotrope.text.files import TextFile, reading_errors

LONGEST_LINE = 1 << 24  # bytes: a longer line is cut here, so that a file without line ends cannot fill the memory
_TOLD = 10_000  # lines between two words on how far the reading is
_HEAD = 1 << 16  # bytes read at once, and looked at to tell text from a binary file
_PACKED = 1 << 13  # compressed bytes read at once: they may become thousands of times as many
_STREAMS: dict[str, Callable[[], Any]] = {  # objects with decompress, eof and unused_data, for one stream
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: needs("text", "zstandard").ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}


def lines(source: TextFile) -> Iterator[str]:
    """The lines of a text file with their ends, decompressed; bytes that are not UTF-8 become lone surrogates.

    A line of `LONGEST_LINE` bytes or more is cut there.
    """
    with reading_errors(source), source.open() as file, io.BufferedReader(_Blocks(file, source), _HEAD) as stream:
        _check_text(source, stream.peek(_HEAD)[:_HEAD])
        number, size = 0, source.size
        while raw := stream.readline(LONGEST_LINE):
            number += 1
            if number % _TOLD == 0:
                tell("read", file.tell(), size, "bytes")
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                raw += b"\n"
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")


def _check_text(path: object, head: bytes) -> None:
    if not head:
        raise UserError(f"{path} is empty", "remove it or give a file with one sentence a line")
    text = head.decode("utf-8", "surrogateescape")
    undecodable = sum("\udc80" <= character <= "\udcff" for character in text)
    if b"\0" in head or undecodable > 0.2 * len(text):
        remedy = "give a text file, or convert it to UTF-8 (for example with iconv)"
        raise UserError(f"{path} is not text in UTF-8", remedy)


def _stored(file: Any, source: TextFile, size: int) -> Iterator[bytes]:
    """The bytes of a file, which are hashed on the way."""
    if source.total is not None:
        source.total.update(source.header.encode())
    while block := file.read(size):
        if source.total is not None:
            source.total.update(block)
        yield block


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


class _Blocks(io.RawIOBase):
    """The contents of a file, for a buffer that knows lines."""

    def __init__(self, file: Any, source: TextFile) -> None:
        new = _STREAMS.get(source.compression)
        stored = _stored(file, source, _PACKED if new else _HEAD)
        self._blocks, self._ready = _unpacked(stored, new) if new else stored, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._ready = memoryview(block)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
