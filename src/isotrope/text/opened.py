"""Opened text: whatever the user gives, read, cleaned and hashed once, and passed on as one object."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached
from isotrope.store.remote import is_url, local_paths, without_secrets
from isotrope.text.cleaning import Cleaning
from isotrope.text.collection import Documents, open_documents
from isotrope.text.corpus import Corpus, Wanted, open_corpus
from isotrope.text.files import COMPRESSIONS, FORMATS, OTHER_NAMES, TextFile, find_sources

Given: TypeAlias = Any  # a path or URL, several of them, a list of texts, a Dataset, a DataFrame, a Series, an Opened
_TABLE = "texts.parquet"  # what is in memory is written here, and read as any other file


@dataclass(frozen=True)
class Opened:
    """Text, and how to read it. It is read when `texts` or `documents` is called first, and never again.

    Attributes:
        paths: files, folders and URLs.
        name: what it is, in words: "notes.txt", "3 files", "a list of 500 texts".
        text, title, positive, negatives: columns of tables; see `isotrope.text.open`.
        split: "sentences" makes a row of each sentence.
        keep_duplicates: keep rows that occurred before.
    """

    paths: tuple[str, ...]
    name: str
    text: str | None = None
    title: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()
    split: str | None = None
    keep_duplicates: bool = False

    @cached_property
    def files(self) -> tuple[TextFile, ...]:
        """The files that the paths name.

        Raises:
            UserError: one is missing, empty, unreadable or of an unknown kind.
        """
        return tuple(find_sources(self.paths, self.split, may_be_empty=(".md", ".html", ".txt")))

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of this machine among the paths: nothing may be written there."""
        return [path for path in local_paths(self.paths) if path.is_dir()]

    def texts(self, wanted: Wanted | None = None) -> Corpus:
        """Cleaned rows, each a text with its positives and negatives if there are any.

        Args:
            wanted: read only these rows of text behind URLs; None: all.

        Raises:
            UserError: anything wrong with the text.
        """
        if "texts" not in self._read:
            _ = self._states  # as they were before they were read
            self._read["texts"] = open_corpus(
                self.paths, cache=cache_folder("corpora"), text=self.text, positive=self.positive,
                negatives=self.negatives, split=self.split, cleaning=Cleaning(dedupe=not self.keep_duplicates),
                wanted=wanted,
            )  # fmt: skip
        found: Corpus = self._read["texts"]
        return found

    def documents(self) -> Documents:
        """Titles and paragraphs.

        Raises:
            UserError: anything wrong with the text.
        """
        if "documents" not in self._read:
            _ = self._states  # as they were before they were read
            self._read["documents"] = open_documents(
                self.paths, cache=cache_folder("documents"), title=self.title, text=self.text
            )
        found: Documents = self._read["documents"]
        return found

    def seen(self) -> None:
        """Remember the state of the files, for whoever reads them as they are: `check` compares it."""
        self._read["rows"] = self._states

    def check(self) -> None:
        """Check that the files are those that were read. Files that nobody has touched are not read again.

        Raises:
            UserError: they changed.
        """
        if self._read and self._states != [file.state for file in find_sources(self.paths, may_be_empty=FORMATS)]:
            raise UserError(f"{self.name} changed while the work was going on", "give the same command again")

    @cached_property
    def _read(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _states(self) -> list[tuple[Any, ...]]:
        return [file.state for file in self.files]


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
    """Open text of any kind. Nothing is read yet.

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
        UserError: the source is none of these.
    """
    if isinstance(source, Opened):
        return source
    columns: dict[str, Any] = {
        "text": text, "title": title, "positive": positive, "negatives": tuple(negatives), "split": split,
        "keep_duplicates": keep_duplicates,
    }  # fmt: skip
    if isinstance(source, str | Path):
        return Opened((str(source),), _named([str(source)]), **columns)
    if isinstance(source, list | tuple):
        if not source:
            raise UserError("the list of texts is empty", "give a file, a folder, or some texts")
        for one in source:
            if not isinstance(one, str | Path):
                raise UserError(f"the list of texts holds {one!r:.40}, a {type(one).__name__}", "give strings")
        if all(map(_is_path, source)):
            return Opened(tuple(map(str, source)), _named([str(one) for one in source]), **columns)
        table, name = pa.table({"text": pa.array(source, pa.string())}), f"a list of {len(source):,} texts"
    else:
        table, name = _table_of(source)
    return Opened((str(_written(table)),), name, **columns)


def _is_path(one: str | Path) -> bool:
    """Whether an item of a list is a file rather than a text: texts have blanks, and do not end as files do."""
    if isinstance(one, Path) or is_url(one):
        return True
    ending = Path(one).suffix.lower() if len(one) < 4096 else ""
    known = ending in FORMATS or ending in COMPRESSIONS or ending in OTHER_NAMES
    return "\n" not in one and ((known and " " not in one) or (0 < len(os.fsencode(one)) < 256 and Path(one).exists()))


def _named(paths: Sequence[str]) -> str:
    return without_secrets(paths[0]) if len(paths) == 1 else f"{len(paths):,} files and folders"


def _table_of(source: Given) -> tuple[pa.Table, str]:
    """A Dataset, a DataFrame or a Series as a table: known by what they can do, since pandas may not be installed."""
    kind = type(source).__name__
    if hasattr(source, "to_frame") and hasattr(source, "index"):  # a Series
        table = pa.table({"text": pa.array(source.tolist(), pa.string(), from_pandas=True)})
    elif hasattr(source, "iloc"):
        table = pa.Table.from_pandas(source, preserve_index=False)
    elif hasattr(source, "with_format") and hasattr(source, "column_names"):
        table = source.with_format("arrow")[:]
    else:
        remedy = "give files, folders, URLs, a list of strings, a Dataset, a DataFrame or a Series"
        raise UserError(f"text of the type {kind} cannot be opened", remedy)
    return table, f"a {kind} of {table.num_rows:,} rows"


def _written(table: pa.Table) -> Path:
    """The table as a file in the cache, under a key of its contents."""
    total = xxhash.xxh3_128(
        json.dumps(["given", table.column_names, [str(kind) for kind in table.schema.types]]).encode()
    )
    for batch in table.to_batches(max_chunksize=4096):
        total.update(json.dumps(batch.to_pylist(), default=str).encode("utf-8", "surrogatepass"))
    folder = cached(cache_folder("given", total.hexdigest()), lambda draft: pq.write_table(table, draft / _TABLE))
    return folder / _TABLE
