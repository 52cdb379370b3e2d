"""Documents: files of any kind → titles and paragraphs, memory-mapped, written once and found again."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from datasets import Dataset
from isotrope.errors import UserError
from isotrope.store.atomic import new_file, write_text
from isotrope.text.cleaning import CleaningReport, Found, Tally, fingerprint, fold, kept
from isotrope.text.document_rows import Document, found_as, read_documents
from isotrope.text.files import TextFile, read_once
from isotrope.text.permutation import Permutation, derive
from isotrope.text.readers import DocumentColumns
from isotrope.text.sample import RowIds

_LAYOUT = 1  # version of the reading and the layout below; part of the key
_AT_ONCE = 1024  # documents in memory
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
        tally, titled = Tally(), 0
        with new_file(draft / _ARROW) as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
            for documents in kept(_found(files, columns, tally), tally):
                titles = [document.title for document in documents]
                paragraphs = [document.paragraphs for document in documents]
                writer.write_batch(pa.record_batch([pa.array(titles, pa.string()), paragraphs], schema=_SCHEMA))
                titled += sum(map(bool, titles))
        how = f"{found_as(files, tally.by_block)}; {titled:,} {'has' if titled == 1 else 'have'} a title"
        report = replace(tally.report(files), unit="documents", notes=(how,))
        write_text(draft / _REPORT, report.check().to_json())

    folder, key = read_once(sources, documents_settings(columns), cache, write)
    report = CleaningReport.from_json((folder / _REPORT).read_text(encoding="utf-8"))
    return Documents(Dataset.from_file(str(folder / _ARROW)), key, report)


def _found(sources: Sequence[TextFile], columns: DocumentColumns, tally: Tally) -> Iterator[Found[Document]]:
    for place, document in read_documents(sources, columns, tally):
        title, *paragraphs = fold((document.title, *document.paragraphs))
        document = Document(title, [paragraph for paragraph in paragraphs if paragraph])
        mark = fingerprint((title, *document.paragraphs))
        yield place, document, mark, None if document.text else "blank", (document.text,)


def documents_settings(columns: DocumentColumns) -> str:
    """What decides the documents, beside the files."""
    return json.dumps(["documents", _LAYOUT, columns.title, columns.text])
