"""Texts in memory as an Arrow table: lists, arrays, DataFrames, data sets and their columns."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

from isotrope.errors import UserError, one_of

_REMEDY = (
    "give a Path or URL, a list of strings, an array, a Series, a DataFrame, a Dataset, "
    "or a column of one of these"
)
_ROWS_AT_ONCE = 1000  # of an IterableDataset
# What Arrow raises for a column of mixed types, or of numbers that it cannot hold.
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class TextTable:
    """A table, and what its reader should know.

    Attributes:
        rows: the table.
        name: what it was: "a list of 5 texts".
        left_out: columns that no table can hold -> why.
    """

    rows: pa.Table
    name: str
    left_out: Mapping[str, str] = field(default_factory=dict)


def table_of(source: Any) -> TextTable:
    """An object in memory as a table, whose column is ``text`` if the object has no columns.

    None, NaN and ``pd.NA`` are null.

    Raises:
        UserError: the object holds no texts, or several splits.
    """
    kind = type(source).__name__
    if isinstance(source, DatasetDict | IterableDatasetDict):
        source = _only_split(source)

    if isinstance(source, Dataset):
        source = source.with_format("arrow")[:]
    elif isinstance(source, IterableDataset):
        batches = [pa.table(batch) for batch in source.iter(_ROWS_AT_ONCE)]
        source = pa.concat_tables(batches, promote_options="permissive")

    if isinstance(source, pa.Table):
        return TextTable(source, _described(kind, len(source), "rows"))
    if hasattr(source, "iloc") and hasattr(source, "columns"):  # a DataFrame
        return _table_of_columns(source.items(), kind)
    return _table_of_items(items_of(source), kind)


def items_of(source: Any) -> list[Any]:
    """What an array, a Series, a column or another iterable holds; UserError if it is none."""
    if isinstance(source, pa.Array | pa.ChunkedArray):
        return list(source.to_pylist())
    if isinstance(source, np.ndarray):
        if source.ndim != 1:
            shape = " × ".join(map(str, source.shape)) or "no"
            raise _no_texts(f"an array of {shape} entries has not one text a row")
        return list(source.tolist())

    kind = type(source).__name__
    if isinstance(source, AbstractSet):
        raise _no_texts(f"a {kind} has no order")
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise _no_texts(f"a {kind} holds no texts")
    return list(source)


def _only_split(source: Mapping[str, Any]) -> Any:
    """The one data set of a dictionary of splits; UserError if there are several."""
    if len(source) != 1:
        splits = ", ".join(source)
        problem = f"the {type(source).__name__} has {len(source)} splits ({splits})"
        remedy = one_of("", source, ", such as data['train']")
        raise UserError(problem, remedy, "several-splits")
    (split,) = source.values()
    return split


def _described(kind: str, count: int, unit: str) -> str:
    """A list of 5 texts."""
    article = "an" if kind.startswith(("n", "I", "A")) else "a"
    return f"{article} {kind} of {count:,} {unit}"


def _table_of_items(items: Sequence[Any], kind: str) -> TextTable:
    """Strings, or records with the same keys, one a row."""
    if not items:
        raise _no_texts(f"an empty {kind} has no texts")
    if all(isinstance(item, Mapping) for item in items):
        names = dict.fromkeys(map(str, chain.from_iterable(items)))
        columns = [(name, [record.get(name) for record in items]) for name in names]
        return _table_of_columns(columns, kind)
    texts = []
    for number, item in enumerate(items):
        texts.append(_text_or_null(item, number, kind))
    rows = pa.table({"text": _string_array(texts)})
    return TextTable(rows, _described(kind, len(texts), "texts"))


def _table_of_columns(columns: Iterable[tuple[Any, Any]], kind: str) -> TextTable:
    """Named columns as a table, without those that it cannot hold."""
    columns = [(str(name), values) for name, values in columns]
    counts = Counter(name for name, _ in columns)
    arrays = {}
    left_out = {}
    for name, values in columns:
        if counts[name] > 1:
            left_out[name] = "there are several of this name"
            continue
        try:
            arrays[name] = _column_array(values)
        except _UNFIT:
            left_out[name] = "it holds mixed types"
    rows = pa.table(arrays)
    return TextTable(rows, _described(kind, len(rows), "rows"), left_out)


def _column_array(values: Any) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError:  # lone surrogates, which cleaning counts
        return _string_array(list(values))


def _text_or_null(item: Any, place: int, kind: str) -> str | None:
    if isinstance(item, str):
        return str(item)
    is_missing = np.ndim(item) == 0 and pd.isna(item)
    if not is_missing:
        item_kind = type(item).__name__
        raise _no_texts(f"item {place} of the {kind} is a {item_kind}, not a string")
    return None


def _string_array(texts: Sequence[str | None]) -> pa.Array:
    """Strings that may hold lone surrogates, which Arrow takes as bytes only."""
    encoded: list[bytes | None] = []
    for text in texts:
        encoded.append(None if text is None else text.encode("utf-8", "surrogatepass"))
    return pa.array(encoded, pa.large_binary()).view(pa.large_string())


def _no_texts(problem: str) -> UserError:
    return UserError(problem, _REMEDY, "no-texts")
