"""Cleaning of a corpus: which rows are dropped, and the report of why."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from isotrope.errors import UserError, printable

# In the order in which they are tried.
REASONS = ("not UTF-8 text", "blank", "too short", "too long", "duplicate")
# Characters of a text that may be a useful sentence: not a letter, nor encoded data.
FEWEST_CHARACTERS = 2
MOST_CHARACTERS = 10_000
# A batch in memory: whichever comes first.
_BATCH_ROWS = 8192
_BATCH_CHARACTERS = 1 << 22
_SHOWN = 60  # characters of a dropped row in the report
# A byte that is not UTF-8 is read as one of the latter.
_NOT_TEXT = re.compile("[\\0\ud800-\udfff]")

# A text with its positives and negatives, or a document's title and paragraphs.
Row = tuple[str, ...]
PlacedRow = tuple[str, Row]  # its place, "file:line", and the row
UncleanRow = tuple[str, tuple[str | None, ...]]  # as it was read
Hashes = npt.NDArray[np.uint64]


def reason_to_drop(row: Row) -> str | None:
    """Why a text with its positives and negatives is dropped, or None.

    Duplicates are found elsewhere.
    """
    shortest = min(map(len, row))
    if shortest == 0:
        return "blank"
    if shortest < FEWEST_CHARACTERS:
        return "too short"
    if max(map(len, row)) > MOST_CHARACTERS:
        return "too long"
    return None


def fold(fields: Iterable[str | None]) -> Row:
    """Texts without white space at the ends and with one space between words; null is empty."""
    words_of_texts = [(text or "").split() for text in fields]
    return tuple(map(" ".join, words_of_texts))


class Seen:
    """A growing set of n hashes of 64 bits, at 8 bytes each.

    It is O(log n) sorted arrays, merged as in a binary counter. Two different rows are taken for
    the same with probability n² / 2⁶⁵: 10⁻⁶ for six million rows.
    """

    def __init__(self) -> None:
        self._runs = list[Hashes]()

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes (M,) -> (M,), true where a hash occurs for the first time ever."""
        values, first_rows = np.unique(hashes, return_index=True)
        is_new_value = np.ones(len(values), np.bool_)
        for run in self._runs:
            places = run.searchsorted(values).clip(max=len(run) - 1)
            is_new_value &= run[places] != values
        if is_new_value.any():
            self._append(values[is_new_value])

        is_new = np.zeros(len(hashes), np.bool_)
        is_new[first_rows[is_new_value]] = True
        return is_new

    def _append(self, run: Hashes) -> None:
        """Add a sorted array, merged with the last ones while they are of about its size."""
        while self._runs and 2 * len(run) > len(self._runs[-1]):
            run = np.concatenate([run, self._runs.pop()])
            run.sort(kind="stable")  # merges the two sorted runs in linear time
        self._runs.append(run)


@dataclass
class CleaningReport:
    """What cleaning read, kept and dropped.

    Attributes:
        files: that were read.
        read: rows: lines, a table's rows, blocks of documents; with a split, sentences.
        kept: rows.
        dropped: reason -> rows.
        examples: reason -> the first: "file:line 'beginning of the text'".
        texts: rows before they were split into sentences.
        unit: what a row is, as a plural.
        notes: files that were not read, how the others were, what was made of them.
    """

    files: tuple[str, ...] = ()
    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[str, str] = field(default_factory=dict)
    texts: int = 0
    unit: str = "texts"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        plural = "" if len(self.files) == 1 else "s"
        summary = f"{self.texts:,} {self.unit} read from {len(self.files):,} file{plural},"
        if self.texts != self.read:
            summary += f" split into {self.read:,} sentences,"
        dropped = self.read - self.kept
        lines = [f"{summary} {self.kept:,} kept, {dropped:,} dropped"]
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
            place += " " + repr(text).replace("\\udc", "\\x")  # what is not UTF-8
        self.examples[reason] = printable(place)

    def check(self) -> None:
        """Raise UserError if fewer than two rows are kept, since nothing is learned of one."""
        if self.kept >= 2:
            return
        counts = [f"{count:,} {reason}" for reason, count in self.dropped.items() if count]
        dropped = ", ".join(counts) or "none"
        reasons = "; ".join([f"dropped: {dropped}", *self.notes])
        name = f"the {len(self.files):,} files"
        if len(self.files) == 1:
            name = self.files[0]
        raise UserError(
            f"{name}: {self.kept} of {self.read:,} {self.unit} left ({reasons})",
            "give more text; of pages, code and menus are not read",
            "too-few-texts",
        )


def cleaned(
    rows: Iterable[UncleanRow],
    report: CleaningReport,
    bad: Callable[[Row], str | None],
    keep_duplicates: bool = False,
) -> Iterator[list[Row]]:
    """Batches of the rows that are worth keeping, folded; the report counts all of them.

    ``rows`` come with their places. Memory is constant but for 8 bytes a row, by which duplicates
    are found.
    """
    seen = Seen()
    for batch in _batches(rows, report, bad):
        if not keep_duplicates:
            batch = _without_duplicates(batch, seen, report)
        kept_rows = [row for _, row in batch]
        if kept_rows:
            report.kept += len(kept_rows)
            yield kept_rows


def _without_duplicates(
    batch: Sequence[PlacedRow], seen: Seen, report: CleaningReport
) -> list[PlacedRow]:
    """The rows that occur for the first time."""
    # Texts are joined by what counts as white space, and so occurs in none of them.
    joined = ["\x1f".join(row).encode() for _, row in batch]
    hashes = list(map(xxhash.xxh3_64_intdigest, joined))
    is_new_row = seen.add(np.array(hashes, np.uint64))
    new_rows = []
    for placed_row, is_new in zip(batch, is_new_row, strict=True):
        if is_new:
            new_rows.append(placed_row)
        else:
            report.drop("duplicate", *placed_row)
    return new_rows


def _batches(
    rows: Iterable[UncleanRow], report: CleaningReport, bad: Callable[[Row], str | None]
) -> Iterator[list[PlacedRow]]:
    batch: list[PlacedRow] = []
    characters = 0
    last_place = ""
    for place, fields in rows:
        row = fold(fields)
        report.read += 1
        report.texts += place != last_place  # the sentences of one text have its place
        last_place = place
        is_text = not any(map(_NOT_TEXT.search, row))
        reason = bad(row) if is_text else "not UTF-8 text"
        if reason:
            report.drop(reason, place, row)
            continue
        batch.append((place, row))
        characters += sum(map(len, row))
        if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch = []
            characters = 0
    yield batch
