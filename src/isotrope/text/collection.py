"""Documents: files of any kind → titles and paragraphs, memory-mapped, written once and found again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datasets import Dataset
from isotrope.errors import UserError, printable
from isotrope.store.atomic import new_file, write_text
from isotrope.text.cleaning import CleaningReport, Seen, Tally, fingerprint, fold
from isotrope.text.document_rows import Document, DocumentColumns, NumberedDocument, found_as, read_documents
from isotrope.text.files import TextFile, read_once
from isotrope.text.permutation import Permutation, derive
from isotrope.text.sample import RowIds

_LAYOUT = 1  # version of the reading and the layout below; part of the key
_AT_ONCE, _MOST_CHARS = 1024, 1 << 22  # documents in memory: whichever comes first
_ARROW, _REPORT = "documents.arrow", "report.json"
_SCHEMA = pa.schema([("title", pa.string()), ("paragraphs", pa.list_(pa.string()))])
_HELD_OUT = -2  # the stream of `Documents.split`; -1 is that of a sample


@dataclass(frozen=True, slots=True)
class Documents:
    """Titles and paragraphs of N documents.

    Attributes:
        dataset: memory-mapped, with the columns `title` (may be "") and `paragraphs` (list of texts without the title).
        key: checksum of the files' bytes and of the columns read: equal keys mean equal documents.
        report: how the files were read, and what was dropped.
    """

    dataset: Dataset
    key: str
    report: CleaningReport

    def __len__(self) -> int:
        return len(self.dataset)

    def each(self, rows: RowIds | None = None) -> Iterator[Document]:
        """The documents of these rows (R,), in this order; None: all. Few are in memory at a time."""
        count = len(self) if rows is None else len(rows)
        for begin in range(0, count, _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            found = self.dataset[part] if rows is None else self.dataset[rows[part].tolist()]
            yield from map(Document, found["title"], found["paragraphs"])

    def texts(self, rows: RowIds | None = None) -> list[str]:
        """Title and paragraphs of each document, joined by a blank."""
        return [document.text for document in self.each(rows)]

    def titles(self, rows: RowIds | None = None) -> list[str]:
        """The titles; "" where there is none."""
        return [document.title for document in self.each(rows)]

    def paragraphs(self, rows: RowIds | None = None) -> list[list[str]]:
        """The paragraphs of each document."""
        return [document.paragraphs for document in self.each(rows)]

    def split(self, held_out: int, seed: int) -> tuple[RowIds, RowIds]:
        """The rows to train on, and ``held_out`` random rows that are left out; both rising."""
        if not 0 <= held_out <= len(self) - 2:
            problem = f"{held_out:,} of {len(self):,} documents cannot be held out"
            raise UserError(problem, f"choose 0 to {len(self) - 2:,}")
        order = Permutation(len(self), derive(seed, _HELD_OUT))[np.arange(len(self))]
        return np.sort(order[held_out:]), np.sort(order[:held_out])


def read_collection(sources: Sequence[TextFile], columns: DocumentColumns, cache: Path) -> Documents:
    """Read the documents of files (see `read_documents`) into ``cache/<state>/``; later calls map what is there.

    White space is folded. Empty documents and exact duplicates are dropped and counted. Memory is constant but for 8
    bytes a document.
    """

    def write(draft: Path, files: Sequence[TextFile]) -> None:
        report = _write(draft / _ARROW, files, columns)
        if report.kept < 2:
            named = report.files[0] if len(report.files) == 1 else f"the {len(report.files):,} files"
            left = "no document is" if report.kept == 0 else "a single document is"
            problem = f"{named}: {left} left ({report.summary()}; {report.notes[0]})"
            raise UserError(problem, "give more documents")
        write_text(draft / _REPORT, report.to_json())

    folder, key = read_once(sources, documents_settings(columns), cache, write)
    report = CleaningReport.from_json((folder / _REPORT).read_text(encoding="utf-8"))
    return Documents(Dataset.from_file(str(folder / _ARROW)), key, report)


def _write(path: Path, sources: Sequence[TextFile], columns: DocumentColumns) -> CleaningReport:
    tally, titled = Tally(), 0
    with new_file(path) as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
        for documents in _kept(sources, columns, tally):
            titles = [document.title for document in documents]
            paragraphs = [document.paragraphs for document in documents]
            writer.write_batch(pa.record_batch([pa.array(titles, pa.string()), paragraphs], schema=_SCHEMA))
            titled += sum(map(bool, titles))
    report = tally.report(tuple(printable(str(source)) for source in sources))
    how = f"{found_as(sources, tally.by_block)}; {titled:,} {'has' if titled == 1 else 'have'} a title"
    return replace(report, unit="documents", notes=(how,))


def _kept(sources: Sequence[TextFile], columns: DocumentColumns, tally: Tally) -> Iterator[list[Document]]:
    """Batches of documents worth keeping, their white space folded."""
    seen, batch, size = Seen(), list[tuple[NumberedDocument, int]](), 0
    for place, document in read_documents(sources, columns, tally):
        tally.read += 1
        title, *paragraphs = fold((document.title, *document.paragraphs))
        document = Document(title, [paragraph for paragraph in paragraphs if paragraph])
        mark = fingerprint((title, *document.paragraphs))
        if mark is None or not document.text:
            tally.drop("undecodable" if mark is None else "blank", place, (document.text,))
            continue
        batch.append(((place, document), mark))
        size += len(document.text)
        if len(batch) >= _AT_ONCE or size >= _MOST_CHARS:
            yield _new(batch, seen, tally)
            batch, size = [], 0
    if batch:
        yield _new(batch, seen, tally)


def _new(batch: list[tuple[NumberedDocument, int]], seen: Seen, tally: Tally) -> list[Document]:
    """The documents that did not occur before; the others are counted."""
    new: npt.NDArray[np.bool_] = seen.add(np.fromiter((mark for _, mark in batch), np.uint64, len(batch)))
    for at in np.flatnonzero(~new):
        place, document = batch[at][0]
        tally.drop("duplicate", place, (document.text,))
    return [batch[at][0][1] for at in np.flatnonzero(new)]


def documents_settings(columns: DocumentColumns) -> str:
    """What decides the documents, beside the files."""
    return json.dumps(["documents", _LAYOUT, columns.title, columns.text])
