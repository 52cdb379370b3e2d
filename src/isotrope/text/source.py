"""Text of any kind: read, cleaned and hashed once, and passed on as one object."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.remote import is_url, without_secrets
from isotrope.text.corpus import (
    Documents,
    Texts,
    build_documents,
    build_texts,
)
from isotrope.text.files import ENDINGS, TextFile, find_sources, not_read
from isotrope.text.memory import TextTable, table_of
from isotrope.text.split import language_of
from isotrope.text.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pandas as pd
    from datasets import Dataset, DatasetDict, IterableDataset

# Whatever `read_text` takes.
TextLike: TypeAlias = (
    "str | Path | TextSource | Iterable[str | None] | Iterable[Path] | Iterable[Mapping[str, Any]]"
    " | np.ndarray[Any, Any] | pd.Series[Any] | pd.DataFrame | pa.Table"
    " | Dataset | DatasetDict | IterableDataset"
)
Corpus = TypeVar("Corpus", Texts, Documents)
_TABLE = "texts.parquet"  # what is in memory is written here, and read as any other file
_PATH_BEGINS = ("/", "./", "../", "~/", ".\\", "..\\")


class TextPath(str):
    """The name of a file, folder or URL that is never taken for a text, also within a list."""

    __slots__ = ()


@dataclass(frozen=True)
class TextSource:
    """Text, and how to read it: see `read_text`.

    It is read when `texts` or `documents` is called first, and never again.
    """

    paths: tuple[str, ...]  # files, folders and URLs; of what was in memory, a file of the cache
    name: str  # what it is, in words: "notes.txt", "3 files", "a list of 500 texts"
    text_column: str | None = None
    title_column: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()
    split: str | None = None
    keep_duplicates: bool = False
    in_memory: bool = False  # whether it was given in memory
    notes: tuple[str, ...] = ()  # what was decided in reading it, a line each
    # by the method that read it, which `check` calls again
    _corpora: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def files(self) -> tuple[TextFile, ...]:
        """The files that the paths name, as they are when it is asked for first.

        `check` compares with them.
        """
        return self._find()

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of this machine among the paths: nothing may be written there."""
        local_paths = [Path(path) for path in self.paths if not is_url(path)]
        return [path for path in local_paths if path.is_dir()]

    def texts(self) -> Texts:
        """Cleaned rows, each a text with its positives and negatives if there are any.

        UserError if there are too few rows.
        """
        return self._read_once(self._read_texts)

    def documents(self) -> Documents:
        """Titles and paragraphs; UserError if there are too few documents."""
        return self._read_once(self._read_documents)

    def _read_texts(self, files: Sequence[TextFile]) -> Texts:
        columns = Columns(self.text_column, self.positive, self.negatives)
        cache = cache_folder("corpora")
        return build_texts(files, columns, cache, keep_duplicates=self.keep_duplicates)

    def _read_documents(self, files: Sequence[TextFile]) -> Documents:
        cache = cache_folder("documents")
        return build_documents(files, self.title_column, self.text_column, cache)

    def _read_once(self, read: Callable[[Sequence[TextFile]], Corpus]) -> Corpus:
        if read not in self._corpora:
            corpus: Texts | Documents = read(self.files)
            notes = [*self.notes, not_read(self.paths), *corpus.report.notes]
            corpus.report.notes = tuple(filter(None, notes))
            self._corpora[read] = corpus
        return self._corpora[read]  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raise UserError if the files have changed.

        They are read again only if somebody has touched them.
        """
        files = self._find()
        if files == self.files:
            return
        corpora = self._corpora.items()
        if corpora and all(read(files).key == corpus.key for read, corpus in corpora):
            return
        raise UserError(
            f"{self.name} changed while the work was going on",
            "begin anew with --restart, or name another output",
            "text-changed",
        )

    def _find(self) -> tuple[TextFile, ...]:
        files = find_sources(self.paths, self.split)
        if self.in_memory:
            files = [replace(file, name=self.name) for file in files]
        return tuple(files)


def read_text(
    source: TextLike,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    split: str | None = None,
    keep_duplicates: bool = False,
) -> TextSource:
    """Take text of any kind. Files are not read yet.

    Args:
        source: a `Path` or a list of Paths (files and folders, see
            `isotrope.text.files.SUPPORTED`); a list, an array or a column of strings, which are
            always texts; a DataFrame, a Dataset or a list of dicts; or what this function returned.
            A single string is a path if it is a URL, exists, or looks like a path; otherwise it is
            a text. docs/data.md has a table of all forms.
        text_column: the column of the texts in tables; None: ``text``, or the only column of
            strings.
        title_column: the column of the documents' titles; None: ``title`` if there is one.
        positive: the column of a positive for each text.
        negatives: columns of hard negatives.
        split: ``sentences`` makes a row of each sentence; ``sentences:de`` for German.
        keep_duplicates: keep rows that occurred before.

    Raises:
        UserError: the source is none of these, the split is unknown, or there are negatives without
            positives.
    """
    if isinstance(source, TextSource):
        return source
    if split is not None:
        language_of(split)
    columns = Columns(text_column, positive, tuple(negatives))
    options = TextSource(
        paths=(),
        name="",
        text_column=text_column,
        title_column=title_column,
        positive=positive,
        negatives=columns.negatives,
        split=split,
        keep_duplicates=keep_duplicates,
    )

    if isinstance(source, Path):
        return _with_paths(options, [source])
    note = ""
    if isinstance(source, str):
        if _is_path(source):
            return _with_paths(options, [source])
        note = f"{source[:60]!r} is read as a text, since no file or folder has this name"
        source = [source]
    elif isinstance(source, list | tuple):
        if any(isinstance(item, Path | TextPath) for item in source):
            return _with_paths(options, source)
        note = _note_on_names(source)
    return _with_table(options, table_of(source), note)


def _is_path(source: str) -> bool:
    """Whether a single string names a file or folder: it exists, or looks like a path."""
    is_marked_or_empty = isinstance(source, TextPath) or not source
    if is_marked_or_empty or is_url(source) or _exists(source):
        return True
    is_one_word = len(source.split()) == 1
    has_ending = Path(source).suffix.lower() in ENDINGS
    return is_one_word and (has_ending or "/" in source or source.startswith(_PATH_BEGINS))


def _exists(name: str) -> bool:
    return os.path.exists(name)  # noqa: PTH110 (a Path's raises for what cannot be a name)


def _note_on_names(items: Sequence[Any]) -> str:
    """A line for a list of strings all of which are names of files; else ""."""
    if not items or not all(isinstance(item, str) and _exists(item) for item in items):
        return ""
    return f"the strings are read as texts, though files have these names: give Path({items[0]!r})"


def _with_paths(options: TextSource, paths: Sequence[Any]) -> TextSource:
    for number, path in enumerate(paths):
        if not isinstance(path, str | Path):
            raise UserError(
                f"item {number} of a list of paths is a {type(path).__name__}",
                "give Paths only, or strings only, which are texts",
                "not-a-path",
            )
    names = tuple(map(str, paths))
    described = f"{len(names):,} files and folders"
    if len(names) == 1:
        described = without_secrets(names[0])
    return replace(options, paths=names, name=described)


def _with_table(options: TextSource, table: TextTable, note: str) -> TextSource:
    """Text in memory, written as a file of the cache."""
    columns = [options.text_column, options.title_column, options.positive, *options.negatives]
    for column in filter(None, columns):
        if column in table.left_out:
            raise UserError(
                f"the column {column!r} cannot be read: {table.left_out[column]}",
                "rename it, or make its values strings",
                "column-not-readable",
            )
    notes = [note] if note else []
    if table.left_out:
        left_out = ", ".join(table.left_out)
        notes.append(f"columns not read: {left_out}")
    path = str(_write(table.rows))
    return replace(options, paths=(path,), name=table.name, notes=tuple(notes), in_memory=True)


def _write(table: pa.Table) -> Path:
    """The table as a file in the cache."""
    types = list(map(str, table.schema.types))
    header = json.dumps([table.column_names, types])
    total = xxhash.xxh3_128(header.encode())
    # However the table was put together.
    for batch in table.combine_chunks().to_batches(max_chunksize=4096):
        total.update(batch.serialize())
    folder = cached(
        cache_folder("given", total.hexdigest()),
        lambda draft: pq.write_table(table, draft / _TABLE),
    )
    return folder / _TABLE
