"""Cleaning of a corpus: which rows are dropped, and the report of why."""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import xxhash

from isotrope.errors import UserError, printable
from isotrope.text.files import not_read

REASONS = ("undecodable", "blank", "too_short", "too_long", "duplicate")  # in the order in which they are tried
_IN_WORDS = {"undecodable": "not UTF-8 text", "too_short": "too short", "too_long": "too long"}
_BATCH_ROWS, _BATCH_CHARS = 8192, 1 << 22  # a batch in memory: whichever comes first
_EXAMPLES = 3  # places named for each reason
Row = TypeVar("Row")
_NOT_TEXT = re.compile("[\\0\ud800-\udfff]")  # a byte that is not UTF-8 is read as one of the latter
FEWEST, MOST = 2, 10_000  # characters of a text that may be a useful sentence: not a letter, nor encoded data


def why_dropped(texts: tuple[str, ...]) -> str | None:
    """Why these texts, their white space folded, are dropped, or None. Duplicates are found elsewhere."""
    lengths = [len(text) for text in texts]
    if 0 in lengths:
        return "blank"
    return "too_short" if min(lengths) < FEWEST else "too_long" if max(lengths) > MOST else None


def fold(fields: tuple[str | None, ...]) -> tuple[str, ...]:
    """Texts without white space at the ends and with one space between words; null is empty."""
    return tuple(_folded(text) if text else "" for text in fields)


def _folded(text: str) -> str:
    """Most text is folded already, which is quickly seen: of all white space, only the blank is printable."""
    if text.isprintable() and "  " not in text and text[0] != " " != text[-1]:
        return text
    return " ".join(text.split())


def fingerprint(texts: tuple[str, ...]) -> int | None:
    """64-bit xxh3 of folded texts; None where they are not sound Unicode: bytes that were not UTF-8, or a NUL.

    The texts are joined by U+001F, which counts as white space and so occurs in none of them.
    """
    joined = "\x1f".join(texts)
    try:
        return None if "\0" in joined else xxhash.xxh3_64_intdigest(joined.encode())
    except UnicodeEncodeError:
        return None


class Seen:
    """A growing set of 64-bit hashes at 8 bytes each (16 while two parts are merged), asked and filled in batches.

    It keeps sorted arrays of falling size, merged as in a binary counter, so n hashes lie in O(log n) arrays. Two
    different rows are taken for the same with probability n² / 2⁶⁵: 10⁻⁶ for six million rows.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Adds hashes (M,); returns (M,) true where a hash occurs for the first time, here and ever."""
        values, first = np.unique(hashes, return_index=True)
        fresh = np.ones(len(values), dtype=np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, values), len(run) - 1)
            fresh &= run[places] != values
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[first[fresh]] = True
        if fresh.any():
            self._runs.append(values[fresh])
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")  # merges the two sorted parts in linear time
            self._runs.append(merged)
        return new


Found = tuple[str, Row, int | None, str | None, tuple[str, ...]]
"""A place, what stands there, its `fingerprint`, why it is dropped, and the texts that show it in a report."""


def kept(found: Iterable[Found[Row]], tally: "Tally", keep_duplicates: bool = False) -> Iterator[list[Row]]:
    """Batches of what is worth keeping; the tally counts the others. Memory is constant but for 8 bytes a row."""
    seen, batch, size = Seen(), list[tuple[str, Row, int, tuple[str, ...]]](), 0

    def fresh() -> list[Row]:
        new = np.ones(len(batch), np.bool_)
        if not keep_duplicates:
            new = seen.add(np.fromiter((mark for _, _, mark, _ in batch), np.uint64, len(batch)))
        for at in np.flatnonzero(~new):
            tally.drop("duplicate", batch[at][0], batch[at][3])
        return [batch[at][1] for at in np.flatnonzero(new)]

    for place, row, mark, reason, texts in found:
        tally.read += 1
        if mark is None or reason is not None:
            tally.drop(reason if mark is not None and reason else "undecodable", place, texts)
            continue
        batch.append((place, row, mark, texts))
        size += sum(map(len, texts))
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARS:
            yield fresh()
            batch, size = [], 0
    if batch:
        yield fresh()


@dataclass(frozen=True, slots=True)
class CleaningReport:
    """What cleaning read, kept and dropped.

    Attributes:
        files: the files read, in order.
        read: rows read: lines, a table's rows, blocks of documents; with a split, sentences.
        kept: rows kept.
        dropped: reason → rows, for every reason of `REASONS`.
        examples: reason → the first places, as "file:line 'beginning of the text'".
        texts: rows before they were split into sentences; 0: nothing is known of a split.
        skipped: ending → files of the folders that were not read.
        unit: what a row is, as a plural.
        notes: further lines: how the files were read, what was made of them.
    """

    files: tuple[str, ...] = ()
    read: int = 0
    kept: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    unit: str = "texts"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line for the whole, one for each reason that occurred, one for the files that were not read, the notes."""
        files = "1 file" if len(self.files) == 1 else f"{len(self.files):,} files"
        texts = self.texts or self.read
        split = f" split into {self.read:,} sentences," if texts != self.read else ""
        counts = f"{self.kept:,} kept, {self.read - self.kept:,} dropped"
        table = [f"{texts:,} {self.unit} read from {files},{split} {counts}"]
        for reason, count in self.dropped.items():
            if count:
                table.append(f"  {_IN_WORDS.get(reason, reason):<14}{count:>12,}  first: {self.examples[reason][0]}")
        if left := not_read(self.skipped):
            table.append(f"  {left}")
        table += [f"  {note}" for note in self.notes]
        return "\n".join(table)

    def check(self) -> "CleaningReport":
        """Itself, if two rows are kept. Raises UserError if they are fewer, since nothing is learned of one."""
        if self.kept < 2:
            counts = [f"{count:,} {_IN_WORDS.get(reason, reason)}" for reason, count in self.dropped.items() if count]
            read = f"1 {self.unit.removesuffix('s')}" if self.read == 1 else f"{self.read:,} {self.unit}"
            said = "; ".join([f"{read} read, dropped: {', '.join(counts) or 'none'}", *self.notes])
            named = self.files[0] if len(self.files) == 1 else f"the {len(self.files):,} files"
            left = f"{'no' if self.kept == 0 else 'a single'} {self.unit.removesuffix('s')} is left"
            raise UserError(f"{named}: {left} ({said})", "give more text; of pages, code and menus are not read")
        return self

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "CleaningReport":
        """The report that `to_json` wrote."""
        record = json.loads(text)
        examples = {reason: tuple(places) for reason, places in record.pop("examples").items()}
        record |= {key: tuple(record[key]) for key in ("files", "notes") if key in record}
        return cls(**record | {"examples": examples})


class Tally:
    """Counts the rows while they are cleaned, and keeps the first places of each reason."""

    def __init__(self) -> None:
        self.read = self.texts = 0
        self.by_block = False  # whether blank lines separate the documents of a single file
        self._dropped = dict.fromkeys(REASONS, 0)
        self._examples: dict[str, tuple[str, ...]] = dict.fromkeys(REASONS, ())

    def drop(self, reason: str, place: str, texts: tuple[str, ...]) -> None:
        """Counts a dropped row; place is "file:line"."""
        self._dropped[reason] += 1
        if len(self._examples[reason]) < _EXAMPLES:
            begin = " | ".join(_part(text) for text in texts)  # cut first: a text may be megabytes
            quoted = f"{begin!r}".replace("\\udc", "\\x")  # a byte that is not UTF-8, as the byte
            self._examples[reason] += (printable(f"{place} {quoted}" if begin else place),)

    def report(self, files: Iterable[object]) -> CleaningReport:
        """What was counted so far, in these files."""
        named, left = tuple(printable(str(file)) for file in files), self.read - sum(self._dropped.values())
        return CleaningReport(named, self.read, left, self._dropped, self._examples, self.texts)


def _part(text: str) -> str:
    """The 60 characters that show what is wrong: around the first one that is no text, else the first ones."""
    fault = _NOT_TEXT.search(text)
    begin = max(0, fault.start() - 30) if fault else 0
    return text[begin : begin + 60]
