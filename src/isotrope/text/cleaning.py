"""Cleaning of a corpus: which rows are dropped, and the report of why."""

import re
from collections.abc import Callable, Iterable, Iterator
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
# a byte that is not UTF-8 is read as one of the latter
_NOT_TEXT = re.compile("[\\0\ud800-\udfff]")

# a text with its positives and negatives, or a document's title and paragraphs
Row = tuple[str, ...]


def bad_text(row: Row) -> str | None:
    """Why a text with its positives and negatives is dropped, or None. Duplicates are found
    elsewhere.
    """
    shortest, longest = min(map(len, row)), max(map(len, row))
    return (
        "blank"
        if not shortest
        else "too short"
        if shortest < FEWEST
        else "too long"
        if longest > MOST
        else None
    )


def fold(fields: tuple[str | None, ...]) -> Row:
    """Texts without white space at the ends and with one space between words; null is empty."""
    return tuple(" ".join(text.split()) if text else "" for text in fields)


class Seen:
    """A growing set of n hashes of 64 bits at 8 bytes each, in O(log n) sorted arrays, merged as in
    a binary counter.

    Two different rows are taken for the same with probability n² / 2⁶⁵: 10⁻⁶ for six million rows.
    """

    def __init__(self) -> None:
        self._runs = list[npt.NDArray[np.uint64]]()

    def add(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Adds hashes (M,); returns (M,) true where a hash occurs for the first time, here and
        ever.
        """
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
        table = [f"{self.texts:,} {self.unit} read from {files},{split} {counts}"]
        dropped = ((reason, count) for reason, count in self.dropped.items() if count)
        table += [
            f"  {reason:<14}{count:>12,}  first: {self.examples[reason]}"
            for reason, count in dropped
        ]
        return "\n".join([*table, *(f"  {note}" for note in self.notes)])

    def drop(self, reason: str, place: str, row: Row) -> None:
        """Count a dropped row; place is "file:line"."""
        self.dropped[reason] += 1
        if reason not in self.examples:
            text = " | ".join(filter(None, row))[:60]
            # a byte that is not UTF-8, as the byte
            quoted = f" {text!r}".replace("\\udc", "\\x") if text else ""
            self.examples[reason] = printable(place + quoted)

    def check(self) -> None:
        """Raise UserError if fewer than two rows are kept, since nothing is learned of one."""
        if self.kept < 2:
            counts = ", ".join(
                f"{count:,} {reason}" for reason, count in self.dropped.items() if count
            )
            said = "; ".join([f"dropped: {counts or 'none'}", *self.notes])
            named = self.files[0] if len(self.files) == 1 else f"the {len(self.files):,} files"
            problem = f"{named}: {self.kept} of {self.read:,} {self.unit} left ({said})"
            raise UserError(problem, "give more text; of pages, code and menus are not read")


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
    seen = Seen()
    for batch in _batches(rows, report, bad):
        new = np.ones(len(batch), np.bool_)
        # a row is joined by what counts as white space, and so occurs in none of its texts
        if not keep_duplicates:
            marks = (xxhash.xxh3_64_intdigest("\x1f".join(row).encode()) for _, row in batch)
            new = seen.add(np.fromiter(marks, np.uint64, len(batch)))
        for at in np.flatnonzero(~new):
            report.drop("duplicate", *batch[at])
        if kept := [batch[at][1] for at in np.flatnonzero(new)]:
            report.kept += len(kept)
            yield kept


def _batches(
    rows: Iterable[tuple[str, tuple[str | None, ...]]],
    report: CleaningReport,
    bad: Callable[[Row], str | None],
) -> Iterator[list[tuple[str, Row]]]:
    batch, size, last = list[tuple[str, Row]](), 0, ""
    for place, fields in rows:
        row = fold(fields)
        report.read += 1
        report.texts += place != last  # the sentences of one text have its place
        last = place
        if reason := "not UTF-8 text" if any(map(_NOT_TEXT.search, row)) else bad(row):
            report.drop(reason, place, row)
            continue
        batch.append((place, row))
        size += sum(map(len, row))
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    yield batch
