"""The lines of a text file, hashed as they are stored, decompressed, and checked to be text."""

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
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
