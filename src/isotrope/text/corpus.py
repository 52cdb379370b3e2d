"""Corpora: files of any size and kind → one cleaned, memory-mapped data set, written once and found again."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datasets import Dataset, Features, Value
from isotrope.errors import UserError
from isotrope.store.atomic import new_file, write_text
from isotrope.text.cleaning import CleaningReport, Found, Tally, fingerprint, fold, kept, why_dropped
from isotrope.text.files import TextFile, read_once
from isotrope.text.readers import Columns, rows

_LAYOUT = 3  # version of the cleaning and the layout below; part of the key, so that a change never meets old files
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
    cache: Path,
    *,
    keep_duplicates: bool = False,
    wanted: Wanted | None = None,
) -> Texts:
    """Clean the texts of files and write them to ``cache/<state>/``; later calls map what is there.

    Memory is constant but for 8 bytes a row for duplicates (16 for moments).

    Args:
        sources: the files.
        columns: of tables.
        cache: folder for the cleaned texts.
        keep_duplicates: keep rows that occurred before.
        wanted: only the texts of these rows are written, and the others are null. It needs little disk, and reads the
            files once more: to count the rows. None: all.
    """
    if columns.positive is not None and any(source.split for source in sources):
        raise UserError("a text with a positive cannot be split", "leave out the split, or the positives")
    schema = Features({**dict.fromkeys(columns.names, Value("string")), "label": Value("int64")}).arrow_schema

    def cleaned(files: Sequence[TextFile], tally: Tally) -> Iterator[list[tuple[str, ...]]]:
        return kept(_found(files, columns, tally), tally, keep_duplicates)

    def write(draft: Path, files: Sequence[TextFile]) -> None:
        rows = None if wanted is None else wanted.rows(sum(map(len, cleaned(sources, Tally()))))
        tally, count = Tally(), 0
        with new_file(draft / _ARROW) as file, pa.ipc.new_stream(file, schema) as writer:
            for texts in filter(None, cleaned(files, tally)):  # a batch of nothing but duplicates is empty
                label = np.arange(count, count + len(texts))
                null = np.zeros(len(texts), bool) if rows is None else ~np.isin(label, rows, assume_unique=True)
                arrays: list[Any] = [pa.array(column, pa.string(), mask=null) for column in zip(*texts, strict=True)]
                writer.write_batch(pa.record_batch([*arrays, pa.array(label)], schema=schema))
                count += len(texts)
        write_text(draft / _REPORT, tally.report(files).check().to_json())

    settings, part = texts_settings(columns, keep_duplicates), "" if wanted is None else wanted.key
    folder, key = read_once(sources, settings, cache, write, part)
    report = CleaningReport.from_json((folder / _REPORT).read_text(encoding="utf-8"))
    return Texts(Dataset.from_file(str(folder / _ARROW)), columns.names, key, report)


def _found(sources: Sequence[TextFile], columns: Columns, tally: Tally) -> Iterator[Found[tuple[str, ...]]]:
    for source in sources:
        name, last = str(source), 0
        for line, fields in rows(source, columns):
            tally.texts += line != last  # the sentences of one text have its number
            last = line
            texts = fold(fields)
            yield f"{name}:{line}", texts, fingerprint(texts), why_dropped(texts), texts


def texts_settings(columns: Columns, keep_duplicates: bool) -> str:
    """What decides the rows, beside the files."""
    return json.dumps([_LAYOUT, asdict(columns), keep_duplicates])
