"""Cleaning of a corpus: which rows are dropped, and the report of why."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from isotrope.errors import UserError, printable

# in the order in which they are tried
REASONS = ("not UTF-8 text", "blank", "too short", "too long", "duplicate")
# characters of a text that may be a useful sentence: not a letter, nor encoded data
FEWEST, MOST = 2, 10_000
_BATCH_ROWS, _BATCH_CHARS = 8192, 1 << 22  # a batch in memory: whichever comes first
_SHOWN = 60  # characters of a dropped row in the report
# a byte that is not UTF-8 is read as one of the latter
_NOT_TEXT = re.compile("[\\0\ud800-\udfff]")

# a text with its positives and negatives, or a document's title and paragraphs
Row = tuple[str, ...]
PlacedRow = tuple[str, Row]  # its place, "file:line", and the row
Hashes = npt.NDArray[np.uint64]


def bad_text(row: Row) -> str | None:
    """Why a text with its positives and negatives is dropped, or None. Duplicates are found
    elsewhere.
    """
    shortest, longest = min(map(len, row)), max(map(len, row))
    if shortest == 0:
        return "blank"
    if shortest < FEWEST:
        return "too short"
    return "too long" if longest > MOST else None


def fold(fields: Iterable[str | None]) -> Row:
    """Texts without white space at the ends and with one space between words; null is empty."""
    return tuple(" ".join(text.split()) if text else "" for text in fields)


class Seen:
    """A growing set of n hashes of 64 bits at 8 bytes each, in O(log n) sorted arrays, merged as in
    a binary counter.

    Two different rows are taken for the same with probability n² / 2⁶⁵: 10⁻⁶ for six million rows.
    """

    def __init__(self) -> None:
        self._runs = list[Hashes]()

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Adds hashes (M,); returns (M,) true where a hash occurs for the first time, here and
        ever.
        """
        values, first_rows = np.unique(hashes, return_index=True)
        is_new_value = np.ones(len(values), dtype=np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, values), len(run) - 1)
            is_new_value &= run[places] != values
        if is_new_value.any():
            self._append(values[is_new_value])

        is_new = np.zeros(len(hashes), dtype=np.bool_)
        is_new[first_rows[is_new_value]] = True
        return is_new

    def _append(self, run: Hashes) -> None:
        """Add a sorted array; merge the last two while they are of about the same size."""
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")  # merges the two sorted parts in linear time
            self._runs.append(merged)


@dataclass
class CleaningReport:
    """What cleaning read, kept and dropped."""

    files: tuple[str, ...] = ()
    read: int = 0  # rows: lines, a table's rows, blocks of documents; with a split, sentences
    kept: int = 0
    # reason -> rows
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    # reason -> the first: "file:line 'beginning of the text'"
    examples: dict[str, str] = field(default_factory=dict)
    texts: int = 0  # rows before they were split into sentences
    unit: str = "texts"  # what a row is, as a plural
    # files that were not read, how the others were, what was made of them
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = "1 file" if len(self.files) == 1 else f"{len(self.files):,} files"
        split = f" split into {self.read:,} sentences," if self.texts != self.read else ""
        counts = f"{self.kept:,} kept, {self.read - self.kept:,} dropped"
        lines = [f"{self.texts:,} {self.unit} read from {files},{split} {counts}"]
        for reason, count in self.dropped.items():
            if count:
                lines.append(f"  {reason:<14}{count:>12,}  first: {self.examples[reason]}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def drop(self, reason: str, place: str, row: Row) -> None:
        """Count a dropped row; place is "file:line"."""
        self.dropped[reason] += 1
        if reason in self.examples:
            return
        text = " | ".join(filter(None, row))[:_SHOWN]
        if text:
            # a byte that is not UTF-8, as the byte
            place += f" {text!r}".replace("\\udc", "\\x")
        self.examples[reason] = printable(place)

    def check(self) -> None:
        """Raise UserError if fewer than two rows are kept, since nothing is learned of one."""
        if self.kept >= 2:
            return
        counts = [f"{count:,} {reason}" for reason, count in self.dropped.items() if count]
        reasons = [f"dropped: {', '.join(counts) or 'none'}", *self.notes]
        name = self.files[0] if len(self.files) == 1 else f"the {len(self.files):,} files"
        raise UserError(
            f"{name}: {self.kept} of {self.read:,} {self.unit} left ({'; '.join(reasons)})",
            "give more text; of pages, code and menus are not read",
            "too-few-texts",
        )


def cleaned(
    rows: Iterable[tuple[str, tuple[str | None, ...]]],
    report: CleaningReport,
    bad: Callable[[Row], str | None],
    keep_duplicates: bool = False,
) -> Iterator[list[Row]]:
    """Batches of the rows that are worth keeping, folded, of rows with their places; the report
    counts all of them.

    Memory is constant but for 8 bytes a row, by which duplicates are found.
    """
    seen = None if keep_duplicates else Seen()
    for batch in _batches(rows, report, bad):
        kept = _without_duplicates(batch, seen, report)
        if kept:
            report.kept += len(kept)
            yield kept


def _without_duplicates(
    batch: Sequence[PlacedRow], seen: Seen | None, report: CleaningReport
) -> list[Row]:
    """The rows that occur for the first time; all of them if ``seen`` is None."""
    if seen is None:
        return [row for _, row in batch]
    # A row is joined by what counts as white space, and so occurs in none of its texts.
    hashes = (xxhash.xxh3_64_intdigest("\x1f".join(row).encode()) for _, row in batch)
    is_new = seen.add(np.fromiter(hashes, np.uint64, len(batch)))
    kept = []
    for (place, row), new in zip(batch, is_new, strict=True):
        if new:
            kept.append(row)
        else:
            report.drop("duplicate", place, row)
    return kept


def _batches(
    rows: Iterable[tuple[str, tuple[str | None, ...]]],
    report: CleaningReport,
    bad: Callable[[Row], str | None],
) -> Iterator[list[PlacedRow]]:
    batch = list[PlacedRow]()
    characters = 0
    last_place = ""
    for place, fields in rows:
        row = fold(fields)
        report.read += 1
        report.texts += place != last_place  # the sentences of one text have its place
        last_place = place
        reason = "not UTF-8 text" if any(map(_NOT_TEXT.search, row)) else bad(row)
        if reason:
            report.drop(reason, place, row)
            continue
        batch.append((place, row))
        characters += sum(map(len, row))
        if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARS:
            yield batch
            batch, characters = [], 0
    yield batch
