"""Corpora: files of any size and kind → one cleaned, memory-mapped data set, written once and found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datasets import Dataset, Features, Value
from isotrope.errors import UserError, printable
from isotrope.store.atomic import new_file, write_text
from isotrope.text.cleaning import Cleaning, CleaningReport, Seen, Tally, fingerprint, fold
from isotrope.text.files import TextFile, read_once
from isotrope.text.readers import Columns, rows

_LAYOUT = 2  # version of the cleaning and the layout below; part of the key, so that a change never meets old files
_BATCH_ROWS, _BATCH_CHARS = 8192, 1 << 22  # a batch in memory: whichever comes first
_ARROW, _REPORT = "corpus.arrow", "report.json"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows of a corpus whose texts are read.

    Attributes:
        key: says all that decides them; part of a folder's name.
        rows: number of rows -> the ids (R,) of those that are read, rising.
    """

    key: str
    rows: Callable[[int], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Texts:
    """A cleaned corpus.

    Attributes:
        dataset: memory-mapped `datasets.Dataset` with the columns below and `label`, the row id (int64), which
            sentence-transformers' trainer hands to the loss and which keys a teacher's cache.
        columns: ("text",), ("text", "positive") or ("text", "positive", "negative_0", …).
        key: checksum of the files' bytes, the columns and the cleaning: equal keys mean equal rows.
        report: what cleaning dropped, and why.
        rounds: rows of each round, where the rows are pairs drawn from documents: round after round, each with at most
            one pair of a document. Empty: all rows are one round.
    """

    dataset: Dataset
    columns: tuple[str, ...]
    key: str
    report: CleaningReport
    rounds: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.dataset)

    def texts(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The sentences of these rows: their first column."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise UserError(f"row id {wrong} in a corpus of {len(self)}", "let 'label' hold the row numbers")
        return list(self.dataset[rows.tolist()][self.columns[0]])


def read_texts(
    sources: Sequence[TextFile],
    columns: Columns,
    cleaning: Cleaning,
    cache: Path,
    *,
    wanted: Wanted | None = None,
    progress: Callable[[int], None] = lambda lines: None,
) -> Texts:
    """Clean the texts of files and write them to ``cache/<state>/``; later calls map what is there.

    Memory is constant but for 8 bytes a row for duplicates (16 for moments).

    Args:
        sources: the files.
        columns: of tables.
        cleaning: what is dropped.
        cache: folder for the cleaned texts.
        wanted: only the texts of these rows are written, and the others are null. It needs little disk, and reads the
            files once more: to count the rows. None: all.
        progress: called now and then with the number of lines read so far.
    """
    if columns.positive is not None and any(source.split for source in sources):
        raise UserError("a text with a positive cannot be split", "leave out the split, or the positives")

    def write(draft: Path, files: Sequence[TextFile]) -> None:
        rows = None if wanted is None else wanted.rows(sum(map(len, _clean(sources, columns, cleaning, Tally()))))
        report = _write_arrow(draft / _ARROW, files, columns, cleaning, rows, progress)
        if report.kept < 2:
            kept = "no sentence" if report.kept == 0 else "a single sentence"
            named = report.files[0] if len(report.files) == 1 else f"the {len(report.files)} files"
            if report.read == 0:
                raise UserError(f"{named}: there is no text", "give more: code, menus and scripts are not read")
            raise UserError(f"{named}: cleaning leaves {kept} ({report.summary()})", "give more text")
        write_text(draft / _REPORT, report.to_json())

    folder, key = read_once(
        sources, texts_settings(columns, cleaning), cache, write, "" if wanted is None else wanted.key
    )
    report = CleaningReport.from_json((folder / _REPORT).read_text(encoding="utf-8"))
    return Texts(Dataset.from_file(str(folder / _ARROW)), columns.names, key, report)


def _write_arrow(
    path: Path,
    sources: Sequence[TextFile],
    columns: Columns,
    cleaning: Cleaning,
    rows: npt.NDArray[np.int64] | None,
    progress: Callable[[int], None],
) -> CleaningReport:
    """``rows``: ids (R,), rising, of those whose texts are written; None: all."""
    features = Features({**dict.fromkeys(columns.names, Value("string")), "label": Value("int64")})
    schema = features.arrow_schema
    tally, kept = Tally(), 0
    with new_file(path) as file, pa.ipc.new_stream(file, schema) as writer:
        for texts in _clean(sources, columns, cleaning, tally):
            if texts:  # a batch of nothing but duplicates is empty
                label = np.arange(kept, kept + len(texts))
                null = np.zeros(len(texts), bool) if rows is None else ~np.isin(label, rows, assume_unique=True)
                arrays: list[Any] = [pa.array(column, pa.string(), mask=null) for column in zip(*texts, strict=True)]
                writer.write_batch(pa.record_batch([*arrays, pa.array(label)], schema=schema))
                kept += len(texts)
            progress(tally.texts)
    return tally.report(tuple(printable(str(source)) for source in sources))


def _clean(
    sources: Sequence[TextFile], columns: Columns, cleaning: Cleaning, tally: Tally
) -> Iterator[list[tuple[str, ...]]]:
    """Batches of rows worth keeping, their white space folded."""
    seen = Seen()
    for source in sources:
        for batch in _batches(source, columns, cleaning, tally):
            if cleaning.dedupe:
                hashes = np.fromiter((mark for _, _, mark in batch), np.uint64, len(batch))
                new = seen.add(hashes)
                for place in np.flatnonzero(~new):
                    tally.drop("duplicate", f"{source}:{batch[place][0]}", batch[place][1])
                yield [batch[place][1] for place in np.flatnonzero(new)]
            else:
                yield [texts for _, texts, _ in batch]


def _batches(
    source: TextFile, columns: Columns, cleaning: Cleaning, tally: Tally
) -> Iterator[list[tuple[int, tuple[str, ...], int]]]:
    """Batches of (line, folded texts, hash), without the rows that are dropped; duplicates are found later."""
    batch: list[tuple[int, tuple[str, ...], int]] = []
    size, last = 0, 0
    for line, fields in rows(source, columns):
        tally.read += 1
        tally.texts += line != last  # the sentences of one text have its number
        last = line
        texts = fold(fields)
        mark = fingerprint(texts)
        if (reason := "undecodable" if mark is None else cleaning.fault(texts)) is not None:
            tally.drop(reason, f"{source}:{line}", texts)
            continue
        assert mark is not None
        batch.append((line, texts, mark))
        size += sum(map(len, texts))
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def texts_settings(columns: Columns, cleaning: Cleaning) -> str:
    """What decides the rows, beside the files."""
    return json.dumps([_LAYOUT, asdict(columns), asdict(cleaning)])
