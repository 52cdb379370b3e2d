"""Corpora: files of any size and kind → one cleaned, memory-mapped data set, written once and found again."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from filelock import FileLock

from datasets import Dataset, Features, Value
from isotrope.errors import UserError
from isotrope.text.cleaning import Cleaning, CleaningReport, Seen, Tally, fingerprint, fold
from isotrope.text.files import Source, checksum, find_sources
from isotrope.text.readers import Columns, rows

_VERSION = 1  # of the cleaning and the layout below; part of the key, so that a change never meets old files
_BATCH_ROWS, _BATCH_CHARS = 8192, 1 << 22  # a batch in memory: whichever comes first
_ARROW, _REPORT = "corpus.arrow", "report.json"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A cleaned corpus.

    Attributes:
        dataset: memory-mapped `datasets.Dataset` with the columns below and `label`, the row id (int64), which
            sentence-transformers' trainer hands to the loss and which keys a teacher's cache.
        columns: ("text",), ("text", "positive") or ("text", "positive", "negative_0", …).
        key: checksum of the files' bytes, the columns and the cleaning: equal keys mean equal rows.
        report: what cleaning dropped, and why.
    """

    dataset: Dataset
    columns: tuple[str, ...]
    key: str
    report: CleaningReport

    def __len__(self) -> int:
        return len(self.dataset)


def open_corpus(
    paths: Iterable[Path | str] | Path | str,
    *,
    cache: Path,
    text: str | None = None,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    cleaning: Cleaning | None = None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Opens files and folders (.txt, .jsonl, .csv, .tsv, .parquet; the first four also .gz, .xz, .zst) as one corpus.

    The first opening writes `cache/<key>/` in constant memory but for 8 bytes a row for duplicates (16 for moments);
    every later opening with the same contents maps it. The folder appears whole or not at all, also after a kill;
    several processes may open the same corpus at once: one writes, the others wait.

    Args:
        paths: one or several files or folders.
        cache: folder for the cleaned corpus.
        text: column with the sentences; see `Columns.choose` for the default.
        positive: column with a positive for each sentence.
        negatives: columns with hard negatives.
        cleaning: what is dropped; default `Cleaning()`.
        progress: called now and then with the number of lines read so far.

    Raises:
        UserError: anything in the input or the cache folder that the user can put right; nothing is left half-written.
    """
    columns = Columns(text, positive, tuple(negatives))
    cleaning = cleaning or Cleaning()
    sources = find_sources([paths] if isinstance(paths, str | Path) else paths)
    key = checksum(sources, json.dumps([_VERSION, asdict(columns), asdict(cleaning)]))
    folder = cache / key
    if not folder.is_dir():
        with _writing_to(cache):
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(cache / f".{key}.lock"):
                if not folder.is_dir():
                    _write(folder, sources, columns, cleaning, progress or (lambda lines: None))
    return _load(folder, columns)


def _load(folder: Path, columns: Columns) -> Corpus:
    try:
        dataset = Dataset.from_file(str(folder / _ARROW))
        report = CleaningReport.from_json((folder / _REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise UserError(
            f"the cleaned corpus {folder} is damaged ({error})", "delete that folder and try again"
        ) from error
    return Corpus(dataset, columns.names, folder.name, report)


@contextmanager
def _writing_to(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise UserError(f"no space left for the corpus in {cache}", "free space or name another folder") from error
        problem = f"the folder {cache} cannot be written ({error.strerror or error})"
        raise UserError(problem, "name another folder for the cache") from error


def _write(
    folder: Path, sources: list[Source], columns: Columns, cleaning: Cleaning, progress: Callable[[int], None]
) -> None:
    part = folder.with_name(f".{folder.name}.part")  # only the holder of the lock comes here: what lies there is dead
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        report = _write_arrow(part / _ARROW, sources, columns, cleaning, progress)
        if report.kept < 2:
            kept = "no sentence" if report.kept == 0 else "a single sentence"
            files = report.files[0] if len(report.files) == 1 else f"the {len(report.files)} files of the corpus"
            raise UserError(f"{files}: cleaning leaves {kept} ({report.summary()})", "give more text or clean less")
        (part / _REPORT).write_text(report.to_json(), encoding="utf-8")
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _write_arrow(
    path: Path, sources: list[Source], columns: Columns, cleaning: Cleaning, progress: Callable[[int], None]
) -> CleaningReport:
    features = Features({**dict.fromkeys(columns.names, Value("string")), "label": Value("int64")})
    schema = features.arrow_schema
    tally, kept = Tally(), 0
    with path.open("wb") as file:
        with pa.ipc.new_stream(file, schema) as writer:
            for texts in _clean(sources, columns, cleaning, tally):
                if texts:  # a batch of nothing but duplicates is empty
                    arrays: list[Any] = [pa.array(column, pa.string()) for column in zip(*texts, strict=True)]
                    label = pa.array(np.arange(kept, kept + len(texts)))
                    writer.write_batch(pa.record_batch([*arrays, label], schema=schema))
                    kept += len(texts)
                progress(tally.read)
        file.flush()
        os.fsync(file.fileno())
    return tally.report(tuple(str(source.path) for source in sources))


def _clean(
    sources: list[Source], columns: Columns, cleaning: Cleaning, tally: Tally
) -> Iterator[list[tuple[str, ...]]]:
    """Batches of rows worth keeping, their white space folded."""
    seen = Seen()
    for source in sources:
        for batch in _batches(source, columns, cleaning, tally):
            if cleaning.dedupe:
                hashes = np.fromiter((mark for _, _, mark in batch), np.uint64, len(batch))
                new = seen.add(hashes)
                for place in np.flatnonzero(~new):
                    tally.drop("duplicate", f"{source.path}:{batch[place][0]}", batch[place][1])
                yield [batch[place][1] for place in np.flatnonzero(new)]
            else:
                yield [texts for _, texts, _ in batch]


def _batches(
    source: Source, columns: Columns, cleaning: Cleaning, tally: Tally
) -> Iterator[list[tuple[int, tuple[str, ...], int]]]:
    """Batches of (line, folded texts, hash) without the rows that are at fault by themselves."""
    batch: list[tuple[int, tuple[str, ...], int]] = []
    size = 0
    for line, fields in rows(source, columns):
        tally.read += 1
        texts = fold(fields)
        mark = fingerprint(texts)
        if (reason := "undecodable" if mark is None else cleaning.fault(texts)) is not None:
            tally.drop(reason, f"{source.path}:{line}", texts)
            continue
        assert mark is not None
        batch.append((line, texts, mark))
        size += sum(map(len, texts))
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
