"""Opened text: whatever the user gives, read, cleaned and hashed once, and passed on as one object."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.remote import is_url, without_secrets
from isotrope.text.corpus import Documents, RowSelection, Texts, build_documents, build_texts
from isotrope.text.files import ENDINGS, TextFile, find_sources, not_read
from isotrope.text.readers import Columns
from isotrope.text.split import language_of

# a path or URL, several of them, a list of texts, a Dataset, a DataFrame, a Series, a TextSource
TextLike: TypeAlias = Any
Read = TypeVar("Read", Texts, Documents)
_TABLE = "texts.parquet"  # what is in memory is written here, and read as any other file


@dataclass(frozen=True)
class TextSource:
    """Text, and how to read it: see `read_text`. It is read when `texts` or `documents` is called first,
    and never again.
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
    # how it is read, and what was found
    _read: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def files(self) -> tuple[TextFile, ...]:
        """The files that the paths name, as they are when it is asked for first; `check` compares
        with them.
        """
        return self._find()

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of this machine among the paths: nothing may be written there."""
        return [Path(path) for path in self.paths if not is_url(path) and Path(path).is_dir()]

    def texts(self, wanted: RowSelection | None = None) -> Texts:
        """Cleaned rows, each a text with its positives and negatives if there are any; UserError if
        there are too few.

        ``wanted`` rows are the only ones kept of text behind URLs, which may be larger than the
        disk.
        """
        columns, cache = (
            Columns(self.text_column, self.positive, self.negatives),
            cache_folder("corpora"),
        )
        read = partial(
            build_texts,
            columns=columns,
            cache=cache,
            keep_duplicates=self.keep_duplicates,
            wanted=wanted,
        )
        return self._once(f"texts {wanted.key if wanted else ''}", read)

    def documents(self) -> Documents:
        """Titles and paragraphs; UserError if there are too few documents."""
        read = partial(
            build_documents,
            title=self.title_column,
            text=self.text_column,
            cache=cache_folder("documents"),
        )
        return self._once("documents", read)

    def _once(self, what: str, read: Callable[[Sequence[TextFile]], Read]) -> Read:
        if what not in self._read:
            found: Read = read(self.files)
            found.report.notes = (*filter(None, [not_read(self.paths)]), *found.report.notes)
            self._read[what] = read, found
        return self._read[what][1]  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raise UserError if the files have changed. They are read again only if somebody has
        touched them.
        """
        now = self._find()
        if now != self.files and (
            not self._read or any(read(now).key != one.key for read, one in self._read.values())
        ):
            problem = f"{self.name} changed while the work was going on"
            raise UserError(problem, "begin anew with --restart, or name another output")

    def _find(self) -> tuple[TextFile, ...]:
        found = find_sources(self.paths, self.split)
        return (
            tuple(replace(file, name=self.name) for file in found)
            if self.in_memory
            else tuple(found)
        )


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
    """Open text of any kind. Files are not read yet.

    Args:
        source: a file, a folder or a URL (see `isotrope.text.files.SUPPORTED`), or a list of these;
            a list of texts; a `datasets.Dataset`; a pandas DataFrame or Series; or what this
            function gave.
        text_column: the column of the texts in tables; None: ``text``, or the only column of strings.
        title_column: the column of the documents' titles; None: ``title`` if there is one.
        positive: the column of a positive for each text.
        negatives: columns of hard negatives.
        split: ``sentences`` makes a row of each sentence; ``sentences:de`` for German.
        keep_duplicates: keep rows that occurred before.

    UserError if the source is none of these, the split is unknown, or there are negatives without
    positives.
    """
    if isinstance(source, TextSource):
        return source
    if split is not None:
        language_of(split)
    columns = Columns(text_column, positive, tuple(negatives))
    opened = TextSource(
        (), "", text_column, title_column, positive, columns.negatives, split, keep_duplicates
    )
    given = [source] if isinstance(source, str | Path) else source
    are_strings = (
        isinstance(given, list | tuple)
        and given
        and all(isinstance(one, str | Path) for one in given)
    )
    if are_strings and (given is not source or all(map(_is_path, given))):
        paths = tuple(map(str, given))
        name = without_secrets(paths[0]) if len(paths) == 1 else f"{len(paths):,} files and folders"
        return replace(opened, paths=paths, name=name)
    # as bytes: Arrow refuses lone surrogates, which cleaning counts, as it does in files
    if are_strings:
        encoded = [str(each).encode("utf-8", "surrogatepass") for each in given]
        table = pa.table({"text": pa.array(encoded, pa.large_binary()).view(pa.large_string())})
    else:
        table = _table_of(source)
    name = (
        f"a list of {len(table):,} texts"
        if are_strings
        else f"a {type(source).__name__} of {len(table):,} rows"
    )
    return replace(opened, paths=(str(_written(table)),), name=name, in_memory=True)


def _is_path(one: str | Path) -> bool:
    """Whether an item of a list is a file rather than a text: texts have blanks, and do not end as
    files do.
    """
    named = (
        isinstance(one, Path)
        or is_url(one)
        or (len(one.split()) == 1 and Path(one).suffix.lower() in ENDINGS)
    )
    return named or os.path.exists(one)  # noqa: PTH110 (a Path's raises for what cannot be a name)


def _table_of(source: TextLike) -> pa.Table:
    """A Dataset, a DataFrame or a Series as a table. pandas need not be there."""
    try:
        if hasattr(source, "iloc"):
            frame = source.to_frame("text") if hasattr(source, "to_frame") else source
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(source, "with_format") and hasattr(source, "column_names"):
            return source.with_format("arrow")[:]
        raise TypeError("there are no strings in it")
    except (pa.ArrowException, UnicodeEncodeError, TypeError) as error:
        remedy = "give files, folders, URLs, a list of strings, a Dataset, a DataFrame or a Series of strings"
        raise UserError(
            f"the {type(source).__name__} cannot be opened as text ({error})", remedy
        ) from error


def _written(table: pa.Table) -> Path:
    """The table as a file in the cache."""
    total = xxhash.xxh3_128(
        json.dumps([table.column_names, [str(kind) for kind in table.schema.types]]).encode()
    )
    # however the table was put together
    for batch in table.combine_chunks().to_batches(max_chunksize=4096):
        total.update(batch.serialize())
    folder = cached(
        cache_folder("given", total.hexdigest()),
        lambda draft: pq.write_table(table, draft / _TABLE),
    )
    return folder / _TABLE
