"""Opened text: whatever the user gives, read, cleaned and hashed once, and passed on as one object."""

import json
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
from isotrope.text.corpus import (
    Documents,
    Texts,
    Wanted,
    documents_settings,
    read_documents,
    read_texts,
    texts_settings,
)
from isotrope.text.files import (
    COMPRESSIONS,
    FORMATS,
    OTHER_NAMES,
    TextFile,
    content_checksum,
    find_sources,
    passed_over,
)
from isotrope.text.readers import Columns
from isotrope.text.split import language_of

Given: TypeAlias = Any  # a path or URL, several of them, a list of texts, a Dataset, a DataFrame, a Series, an Opened
Read = TypeVar("Read", Texts, Documents)
_TABLE = "texts.parquet"  # what is in memory is written here, and read as any other file


@dataclass(frozen=True)
class Opened:
    """Text, and how to read it. It is read when `texts` or `documents` is called first, and never again.

    Attributes:
        paths: files, folders and URLs; of what was in memory, a file of the cache.
        name: what it is, in words: "notes.txt", "3 files", "a list of 500 texts".
        text, title, positive, negatives: columns of tables; see `isotrope.text.open`.
        split: "sentences" makes a row of each sentence.
        keep_duplicates: keep rows that occurred before.
        in_memory: whether it was given in memory, and lies in a file of the cache.
    """

    paths: tuple[str, ...]
    name: str
    text: str | None = None
    title: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()
    split: str | None = None
    keep_duplicates: bool = False
    in_memory: bool = False
    _read: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def files(self) -> tuple[TextFile, ...]:
        """The files that the paths name, as they are when it is asked for first; `check` compares with them.

        Raises:
            UserError: one is missing, empty, unreadable or of an unknown kind.
        """
        return self._find()

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of this machine among the paths: nothing may be written there."""
        return [Path(path) for path in self.paths if not is_url(path) and Path(path).is_dir()]

    def texts(self, wanted: Wanted | None = None) -> Texts:
        """Cleaned rows, each a text with its positives and negatives if there are any.

        Args:
            wanted: keep only these rows of text behind URLs, which may be larger than the disk; None: all.

        Raises:
            UserError: anything wrong with the text.
        """
        columns, keep = Columns(self.text, self.positive, self.negatives), self.keep_duplicates

        def read() -> Texts:
            return read_texts(self.files, columns, cache_folder("corpora"), keep_duplicates=keep, wanted=wanted)

        return self._once(texts_settings(columns, keep), read, "" if wanted is None else wanted.key)

    def documents(self) -> Documents:
        """Titles and paragraphs.

        Raises:
            UserError: anything wrong with the text.
        """

        def read() -> Documents:
            return read_documents(self.files, self.title, self.text, cache_folder("documents"))

        return self._once(documents_settings(self.title, self.text), read)

    def _once(self, settings: str, read: Callable[[], Read], part: str = "") -> Read:
        if (settings, part) not in self._read:
            found = read()
            found.report.skipped = passed_over(self.paths)  # of these folders, whichever were read first
            self._read[settings, part] = found
        again: Read = self._read[settings, part]
        return again

    def check(self) -> None:
        """Check that the files are those that were found. They are read again only if somebody has touched them.

        Raises:
            UserError: they changed.
        """
        if (now := self._find()) == self.files:
            return
        same = [content_checksum(now, settings) == read.key for (settings, _), read in self._read.items()]
        if not same or not all(same):
            problem = f"{self.name} changed while the work was going on"
            raise UserError(problem, "begin anew with --restart, or name another output")

    def _find(self) -> tuple[TextFile, ...]:
        found = find_sources(self.paths, self.split)
        return tuple(replace(file, name=self.name) for file in found) if self.in_memory else tuple(found)


def open(
    source: Given,
    *,
    text: str | None = None,
    title: str | None = None,
    positive: str | None = None,
    negatives: Iterable[str] = (),
    split: str | None = None,
    keep_duplicates: bool = False,
) -> Opened:
    """Open text of any kind. Files are not read yet.

    Args:
        source: a file, a folder or a URL (see `isotrope.text.files.SUPPORTED`), or a list of these; a list of texts; a
            `datasets.Dataset`; a pandas DataFrame or Series; or what this function gave.
        text: the column of the texts in tables; None: ``text``, or the only column of strings.
        title: the column of the documents' titles; None: ``title`` if there is one.
        positive: the column of a positive for each text.
        negatives: columns of hard negatives.
        split: ``sentences`` makes a row of each sentence; ``sentences:de`` for German.
        keep_duplicates: keep rows that occurred before.

    Raises:
        UserError: the source is none of these; the split is unknown; negatives without positives.
    """
    if isinstance(source, Opened):
        return source
    if split is not None:
        language_of(split)
    Columns(text, positive, tuple(negatives))
    opened = partial(
        Opened, text=text, title=title, positive=positive, negatives=tuple(negatives), split=split,
        keep_duplicates=keep_duplicates,
    )  # fmt: skip
    given = [source] if isinstance(source, str | Path) else source
    are_strings = isinstance(given, list | tuple) and given and all(isinstance(one, str | Path) for one in given)
    if are_strings and (given is not source or all(map(_is_path, given))):
        paths = tuple(map(str, given))
        return opened(paths, without_secrets(paths[0]) if len(paths) == 1 else f"{len(paths):,} files and folders")
    table = pa.table({"text": _strings(map(str, given))}) if are_strings else _table_of(source)
    name = f"a list of {len(table):,} texts" if are_strings else f"a {type(source).__name__} of {len(table):,} rows"
    return opened((str(_written(table)),), name, in_memory=True)


def _is_path(one: str | Path) -> bool:
    """Whether an item of a list is a file rather than a text: texts have blanks, and do not end as files do."""
    if isinstance(one, Path) or is_url(one):
        return True
    ending = Path(one).suffix.lower() if len(one) < 4096 else ""
    known = ending in FORMATS or ending in COMPRESSIONS or ending in OTHER_NAMES
    return "\n" not in one and ((known and " " not in one) or (0 < len(one) < 256 and "\0" not in one and _exists(one)))


def _exists(one: str) -> bool:
    try:
        return Path(one).exists()
    except (OSError, UnicodeEncodeError):  # no name of a file
        return False


def _table_of(source: Given) -> pa.Table:
    """A Dataset, a DataFrame or a Series as a table. They are told apart without pandas, which need not be there."""
    try:
        if hasattr(source, "iloc"):
            frame = source.to_frame("text") if hasattr(source, "to_frame") else source
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(source, "with_format") and hasattr(source, "column_names"):
            return source.with_format("arrow")[:]
        raise TypeError("there are no strings in it")
    except (pa.ArrowException, UnicodeEncodeError, TypeError) as error:
        remedy = "give files, folders, URLs, a list of strings, a Dataset, a DataFrame or a Series of strings"
        raise UserError(f"the {type(source).__name__} cannot be opened as text ({error})", remedy) from error


def _strings(texts: Iterable[str]) -> pa.Array:
    """Strings, also with lone surrogates, which Arrow refuses: cleaning counts them, as it does in files."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return pa.array(encoded, pa.large_binary()).view(pa.large_string())


def _written(table: pa.Table) -> Path:
    """The table as a file in the cache, whose folder has the checksum of its contents."""
    total = xxhash.xxh3_128(json.dumps([table.column_names, [str(kind) for kind in table.schema.types]]).encode())
    for batch in table.combine_chunks().to_batches(max_chunksize=4096):  # however the table was put together
        total.update(batch.serialize())
    folder = cached(cache_folder("given", total.hexdigest()), lambda draft: pq.write_table(table, draft / _TABLE))
    return folder / _TABLE
