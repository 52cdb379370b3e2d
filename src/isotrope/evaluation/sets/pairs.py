"""Scored sentence pairs: the record that similarity evaluation works on, and the reader of the user's own file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from isotrope.errors import UserError

FEWEST_PAIRS = 10  # below this many pairs a rank correlation is noise

_FORMAT = "give one pair a line: first sentence, tab, second sentence, tab, score (a .csv file: commas and quotes)"


@dataclass(frozen=True, slots=True)
class Pairs:
    """N sentence pairs with the score that people gave each; a higher score means closer in meaning."""

    name: str
    first: list[str]  # (N,)
    second: list[str]  # (N,)
    gold: npt.NDArray[np.float64]  # (N,)

    def __len__(self) -> int:
        return len(self.first)

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the sentences and scores, in their order."""
        total = xxhash.xxh3_128(json.dumps([self.first, self.second]).encode())
        total.update(self.gold.tobytes())
        return total.hexdigest()


def read_text(path: Path, remedy: str) -> str:
    """The file's text as UTF-8 without a byte-order mark and with line ends as they are.

    Raises UserError where the file is missing, unreadable or not UTF-8 text; undecodable bytes are named by line.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", remedy) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", remedy) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text", f"save the file as UTF-8, or {remedy}") from None
    if "\0" in text:
        raise UserError(f"{path}, line {text[: text.index(chr(0))].count(chr(10)) + 1}: a binary file", remedy)
    return text


def read_score(cell: str, place: str, remedy: str) -> float:
    """The finite number in `cell`; UserError naming `place` otherwise."""
    try:
        score = float(cell)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(f"{place}: the score {cell.strip()[:40]!r} is not a finite number", remedy)
    return score


def read_pairs(path: str | Path) -> Pairs:
    """Read the user's file: two sentences and a score a line, tab-separated, or comma-separated in a .csv file.

    A first line whose score is a word ("score") is taken as the header. Blank lines are passed over. Any scale of
    scores will do, since evaluation is by rank. The pairs are named after the file, without its ending.

    Raises:
        UserError: the file is missing, empty, binary or not UTF-8; a line has another number of columns, an empty
            sentence or a score that is not a finite number; there are fewer than 10 pairs; all scores are equal.
    """
    path = Path(path)
    text = read_text(path, _FORMAT)
    pairs = Pairs(path.stem, [], [], np.empty(0))
    scores: list[float] = []
    rows = _comma_rows(text, path) if path.suffix.lower() == ".csv" else _tab_rows(text)
    for index, (line, cells) in enumerate(rows):
        place = f"{path}, line {line}"
        if len(cells) != 3:
            raise UserError(f"{place}: {len(cells)} column(s) instead of 3", _FORMAT)
        first, second, score = (cell.strip() for cell in cells)
        if index == 0 and _is_word(score):
            continue
        if not first or not second:
            raise UserError(f"{place}: the {'second' if first else 'first'} sentence is empty", "fill or delete it")
        scores.append(read_score(score, place, "correct or delete the line"))
        pairs.first.append(first)
        pairs.second.append(second)
    if len(scores) < FEWEST_PAIRS:
        raise UserError(f"{path} has {len(scores)} pair(s)", f"give at least {FEWEST_PAIRS} scored pairs; {_FORMAT}")
    if min(scores) == max(scores):
        raise UserError(
            f"{path}: every score is {scores[0]:g}", "give scores that differ, or there is no order to find"
        )
    return Pairs(pairs.name, pairs.first, pairs.second, np.array(scores, dtype=np.float64))


def _is_word(cell: str) -> bool:
    """Whether a score cell is a column's name: "score", but neither "nan" (a bad score) nor "4,5" (a typing error)."""
    return cell[:1].isalpha() and cell.lower() not in {"nan", "inf", "infinity"}


def _tab_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    # Split at "\n" alone: str.splitlines would also cut a sentence at U+2028 or U+0085. Quotes are plain characters.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r").split("\t")


def _comma_rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise UserError(f"{path}, line {reader.line_num}: {error}", _FORMAT) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells
