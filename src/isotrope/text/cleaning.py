"""Cleaning of a corpus: which rows are dropped, and the report of why."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xxhash

from isotrope.errors import UserError, printable
from isotrope.text.files import not_read

REASONS = ("undecodable", "blank", "too_short", "too_long", "duplicate")  # in the order in which they are tried
_IN_WORDS = {"undecodable": "not UTF-8 text", "too_short": "too short", "too_long": "too long"}
_EXAMPLES = 3  # places named for each reason
_NOT_TEXT = re.compile("[\\0\ud800-\udfff]")  # a byte that is not UTF-8 is read as one of the latter
_LIMIT = 1 << 20  # characters; lines.LONGEST_LINE bytes hold at least this many and so are always too long


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What a row must be to be kept. The defaults are mild: they drop what cannot be a useful sentence.

    Attributes:
        min_chars: fewest characters of every text of the row, white space folded.
        min_words: fewest words (parts between white space); 1 suits languages that write none.
        max_chars: most characters; longer lines are seldom sentences (broken line ends, markup, encoded data).
        dedupe: whether a row whose texts all occurred in an earlier row is dropped.

    Raises:
        UserError: a limit below 1 or above 2^20, or max_chars < min_chars.
    """

    min_chars: int = 2
    min_words: int = 1
    max_chars: int = 10_000
    dedupe: bool = True

    def __post_init__(self) -> None:
        for name in ("min_chars", "min_words", "max_chars"):
            value = getattr(self, name)
            if not 1 <= value <= _LIMIT:
                raise UserError(f"cleaning: {name} = {value} is impossible", f"choose 1 to {_LIMIT}")
        if self.max_chars < self.min_chars:
            problem = f"cleaning: max_chars = {self.max_chars} is below min_chars = {self.min_chars}"
            raise UserError(problem, "raise max_chars")

    def fault(self, texts: tuple[str, ...]) -> str | None:
        """Why these texts, their white space folded, are dropped, or None. Duplicates are found elsewhere."""
        for text in texts:
            if not text:
                return "blank"
            if len(text) < self.min_chars or (self.min_words > 1 and text.count(" ") + 1 < self.min_words):
                return "too_short"
            if len(text) > self.max_chars:
                return "too_long"
        return None


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

    def summary(self) -> str:
        """The counts in one short phrase, for an error message."""
        counts = [f"{count:,} {_IN_WORDS.get(reason, reason)}" for reason, count in self.dropped.items() if count]
        texts = f"1 {self.unit.removesuffix('s')}" if self.read == 1 else f"{self.read:,} {self.unit}"
        return f"{texts} read, dropped: {', '.join(counts) or 'none'}"

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> CleaningReport:
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

    def report(self, files: tuple[str, ...]) -> CleaningReport:
        """What was counted so far."""
        kept = self.read - sum(self._dropped.values())
        return CleaningReport(files, self.read, kept, self._dropped, self._examples, self.texts)


def _part(text: str) -> str:
    """The 60 characters that show what is wrong: around the first one that is no text, else the first ones."""
    fault = _NOT_TEXT.search(text)
    begin = max(0, fault.start() - 30) if fault else 0
    return text[begin : begin + 60]
