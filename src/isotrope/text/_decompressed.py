"""The bytes of compressed files."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import zstandard

BROKEN = (EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError)
_BLOCK = 1 << 13  # compressed bytes read at once: they may become thousands of times as many


class Decompressed(io.RawIOBase):
    """The bytes of all streams of a compressed file.

    The libraries' own readers accept a truncated .zst, and an .xz with a damaged second stream or with other bytes
    behind the last one.
    """

    def __init__(self, file: io.RawIOBase, new: Callable[[], Any]) -> None:
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
    ".zst": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}
