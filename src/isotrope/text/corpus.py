"""Corpora: files of any size and kind → cleaned texts or documents, memory-mapped.

They are written once and found again.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from datasets import Dataset

from isotrope.errors import UserError, printable
from isotrope.store.cache import cached
from isotrope.store.files import new_file, write_json
from isotrope.text.cleaning import CleaningReport, Row, UncleanRow, cleaned, reason_to_drop
from isotrope.text.files import TextFile
from isotrope.text.permutation import Permutation, RowIds, derive
from isotrope.text.readers import document_rows, files_with_progress, rows
from isotrope.text.tables import Columns

# Versions of the cleaning, of documents, and of the files below; a change never meets old files.
_TEXTS_VERSION = 3
_DOCUMENTS_VERSION = 1
_FILES_VERSION = 2
_ARROW = "rows.arrow"
_REPORT = "report.json"
_DOCUMENT = pa.schema({"title": pa.string(), "paragraphs": pa.list_(pa.string())})
_DOCUMENTS_AT_ONCE = 1024  # in memory
_TICK = 0.02  # seconds between two times of files
_HELD_OUT = -2  # the stream of `Documents.split`; -1 is that of a sample

_Batch = list[Sequence[Any]]  # the columns of some rows


@dataclass(frozen=True, slots=True)
class Texts:
    """A cleaned corpus.

    Attributes:
        dataset: memory-mapped, with the columns below and `label`, the row id (int64), which the
            loss is given.
        columns: ("text",), ("text", "positive") or ("text", "positive", "negative_0", …).
        key: checksum of the files' bytes, the columns and the cleaning: equal keys mean equal rows.
        report: how the files were read, and what was dropped.
        rounds: rows of each round of pairs drawn from documents: at most one pair of a document.
    """

    dataset: Dataset
    columns: tuple[str, ...]
    key: str
    report: CleaningReport
    rounds: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.dataset)

    def texts(self, rows: RowIds) -> list[str]:
        """The sentences of these rows: their first column."""
        is_impossible = (rows < 0) | (rows >= len(self))
        impossible = rows[is_impossible]
        if impossible.size:
            raise UserError(
                f"row id {impossible[0]} in a corpus of {len(self)}",
                "let 'label' hold the row numbers",
                "no-such-row",
            )
        columns = self.dataset[rows.tolist()]
        return list(columns[self.columns[0]])


@dataclass(frozen=True, slots=True)
class Document:
    """A title, which may be "", and paragraphs."""

    title: str
    paragraphs: list[str]

    @property
    def blocks(self) -> list[str]:
        """The title, if there is one, and the paragraphs."""
        return [self.title, *self.paragraphs] if self.title else self.paragraphs

    @property
    def text(self) -> str:
        """Title and paragraphs, joined by a blank."""
        return " ".join(self.blocks)


@dataclass(frozen=True, slots=True)
class Documents:
    """Titles and paragraphs of N documents.

    Attributes:
        dataset: memory-mapped, with the columns `title` (may be "") and `paragraphs` (list of
            texts).
        key: checksum of the files' bytes and of the columns read: equal keys mean equal documents.
        report: how the files were read, and what was dropped.
    """

    dataset: Dataset
    key: str
    report: CleaningReport

    def __len__(self) -> int:
        return len(self.dataset)

    def each(self, rows: RowIds | None = None) -> Iterator[Document]:
        """The documents of these rows (R,), in this order; None: all."""
        dataset = self.dataset
        if rows is not None:
            dataset = dataset.select(rows)
        for batch in dataset.iter(_DOCUMENTS_AT_ONCE):
            yield from map(Document, batch["title"], batch["paragraphs"])

    def texts(self, rows: RowIds | None = None) -> list[str]:
        """Title and paragraphs of each document, joined by a blank."""
        return [document.text for document in self.each(rows)]

    def split(self, held_out: int, seed: int) -> tuple[RowIds, RowIds]:
        """The rows to train on, and ``held_out`` random rows that are left out; both rising."""
        if not 0 <= held_out <= len(self) - 2:
            raise UserError(
                f"{held_out:,} of {len(self):,} documents cannot be held out",
                f"choose 0 to {len(self) - 2:,}",
                "too-many-held-out",
            )
        permutation = Permutation(len(self), derive(seed, _HELD_OUT))
        order = permutation[np.arange(len(self))]
        left_out, trained_on = np.split(order, [held_out])
        return np.sort(trained_on), np.sort(left_out)


def build_texts(
    sources: Sequence[TextFile],
    columns: Columns,
    cache: Path,
    *,
    keep_duplicates: bool = False,
) -> Texts:
    """Clean the texts of files and write them to ``cache/<state>/``; later calls map what is
    there.
    """
    is_split = any(source.split for source in sources)
    if is_split and columns.positive is not None:
        raise UserError(
            "a text with a positive cannot be split",
            "leave out the split, or the positives",
            "split-with-positives",
        )
    types = dict.fromkeys(columns.names, pa.string())
    schema = pa.schema({**types, "label": pa.int64()})

    def batches(files: Sequence[TextFile], report: CleaningReport) -> Iterator[_Batch]:
        placed = _placed_rows(files, columns)
        for batch in cleaned(placed, report, reason_to_drop, keep_duplicates):
            labels = range(report.kept - len(batch), report.kept)
            yield [*zip(*batch, strict=True), labels]

    settings = json.dumps([_TEXTS_VERSION, asdict(columns), keep_duplicates])
    dataset, key, report = _stored(sources, settings, cache, schema, batches)
    return Texts(dataset, columns.names, key, report)


def _placed_rows(files: Sequence[TextFile], columns: Columns) -> Iterator[UncleanRow]:
    for file in files_with_progress(files):
        for line, fields in rows(file, columns):
            yield f"{file}:{line}", fields


def build_documents(
    sources: Sequence[TextFile],
    title_column: str | None,
    text_column: str | None,
    cache: Path,
) -> Documents:
    """As `build_texts`, for the documents of files: see `document_rows`.

    Empty ones and exact duplicates are dropped.
    """

    def batches(files: Sequence[TextFile], report: CleaningReport) -> Iterator[_Batch]:
        report.unit = "documents"
        ways = dict[str, None]()
        with_title = 0
        placed = document_rows(files, title_column, text_column, ways)
        for documents in cleaned(placed, report, _blank):
            titles = [title for title, *_ in documents]
            paragraphs = [paragraphs for _, *paragraphs in documents]
            yield [titles, paragraphs]
            with_title += sum(map(bool, titles))
        have = "has" if with_title == 1 else "have"
        read_as = "; ".join(ways)
        report.notes = (f"{read_as}; {with_title:,} {have} a title",)

    settings = json.dumps(["documents", _DOCUMENTS_VERSION, title_column, text_column])
    return Documents(*_stored(sources, settings, cache, _DOCUMENT, batches))


def _blank(row: Row) -> str | None:
    return None if any(row) else "blank"


def _stored(
    sources: Sequence[TextFile],
    settings: str,
    cache: Path,
    schema: pa.Schema,
    batches: Callable[[Sequence[TextFile], CleaningReport], Iterator[_Batch]],
) -> tuple[Dataset, str, CleaningReport]:
    """The rows that ``batches`` finds in the files, mapped; their key; and the report that it
    fills.

    The key is the checksum of the settings and of the files' headers and bytes, in order, from the
    same reading.
    """
    sources = [source.now() for source in sources]

    def make(draft: Path) -> None:
        # the clock of a file system stands still for some time: later writing shows in the state
        time.sleep(_TICK)
        total = xxhash.xxh3_128(settings.encode())
        hashed = [replace(source, total=total) for source in sources]
        names = [printable(str(source)) for source in sources]
        report = CleaningReport(tuple(names))
        with new_file(draft / _ARROW) as file, pa.ipc.new_stream(file, schema) as writer:
            for columns in batches(hashed, report):
                writer.write_batch(pa.record_batch(columns, schema=schema))
        report.check()
        if [source.now() for source in sources] != sources:
            raise UserError(
                "the files changed while they were read",
                "wait until they are complete",
                "text-changed",
            )
        write_json(draft / _REPORT, [total.hexdigest(), asdict(report)])

    states = [(source.state, source.header) for source in sources]
    identity = json.dumps([_FILES_VERSION, settings, states])
    name = xxhash.xxh3_128_hexdigest(identity.encode())
    folder = cached(cache / name, make)
    dataset = Dataset.from_file(str(folder / _ARROW))
    key, report = json.loads((folder / _REPORT).read_bytes())
    return dataset, key, CleaningReport(**report)
