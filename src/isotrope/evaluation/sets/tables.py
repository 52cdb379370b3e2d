"""Tables of labels, as text: from a file, or from what libraries keep in memory."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas

from isotrope.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from datasets import Dataset, DatasetDict, IterableDataset

# A file, a table of a library, a dictionary of columns, or a list of rows, each of which is a
# dictionary or a sequence.
TableLike: TypeAlias = (
    "str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Iterable[Sequence[Any]]"
    " | np.ndarray[Any, Any] | pandas.DataFrame | pa.Table"
    " | Dataset | DatasetDict | IterableDataset"
)

IN_MEMORY = "labels"  # the name of a table that is no file
TEST_SPLIT = "test"

ROWS_REMEDY = (
    "give a line for each pair (first, second, score), text (text, label), question (question, "
    "answer) or triple (anchor, positive, negative), or name the columns (columns)"
)
LINE_REMEDY = "correct or delete the line"


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, and where it is, for messages."""

    place: str  # "pairs.tsv, line 3"
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """Rows, and the names of their columns if the source has names."""

    name: str  # "labels", or that of the file without its ending
    source: str  # for messages
    columns: list[str] | None  # None: lines of text, of which the first may be a header
    rows: list[Row]

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns, or the first line, which may hold them."""
        if self.columns is None:
            return self.rows[0].cells if self.rows else []
        return self.columns

    @property
    def names(self) -> list[str]:
        """The header in lower case."""
        return [name.strip().lower() for name in self.header]

    @property
    def data(self) -> list[Row]:
        """The rows below the header."""
        return self.rows[1:] if self.columns is None else self.rows


def read_table(source: TableLike) -> JudgedTable:
    """A table from a file (.tsv, .csv, .jsonl) or from memory.

    Raises UserError for what is no table, text that is not UTF-8, and broken lines.
    """
    if isinstance(source, str | Path):
        return _read_file(Path(source))

    if isinstance(source, Mapping):
        splits = {str(name): split for name, split in source.items()}
        if all(_column_names(split) for split in splits.values()):
            return _read_split(splits)
        return _from_rows(list(splits), zip(*splits.values(), strict=True))

    columns = _column_names(source)
    if columns:
        return _from_rows(columns, _named_rows(source, columns))
    return _from_list(list(source))


def _read_file(path: Path) -> JudgedTable:
    if path.suffix.lower() != ".jsonl":
        return JudgedTable(path.stem, str(path), None, split_lines(path, "\t"))

    objects = list(json_objects(path))
    columns = _names_in([item for _, item in objects])
    rows = []
    for place, item in objects:
        cells = [cell_text(item.get(name)) for name in columns]
        rows.append(Row(place, cells))
    return JudgedTable(path.stem, str(path), columns, rows)


def _read_split(splits: Mapping[str, Any]) -> JudgedTable:
    """The only split of a DatasetDict, or its test split, which is what benchmarks report."""
    if len(splits) == 1:
        return read_table(next(iter(splits.values())))
    if TEST_SPLIT not in splits:
        raise UserError(
            f"the labels have the splits {', '.join(splits)}",
            f"give one of them: labels[{next(iter(splits))!r}]",
            code="several-splits",
        )
    return read_table(splits[TEST_SPLIT])


def _from_list(items: Sequence[Any]) -> JudgedTable:
    """A table from rows, which are dictionaries or sequences of cells."""
    if items and all(isinstance(item, Mapping) for item in items):
        columns = _names_in(items)
        return _from_rows(columns, ([item.get(name) for name in columns] for item in items))
    if any(isinstance(item, str) or not isinstance(item, Iterable) for item in items):
        raise UserError(
            f"labels is a list of single values, such as {items[0]!r:.60}",
            ROWS_REMEDY,
            code="no-table",
        )
    return JudgedTable(IN_MEMORY, IN_MEMORY, None, _numbered(items))


def _from_rows(columns: Sequence[Any], rows: Iterable[Iterable[Any]]) -> JudgedTable:
    names = [str(column) for column in columns]
    return JudgedTable(IN_MEMORY, IN_MEMORY, names, _numbered(rows))


def _numbered(rows: Iterable[Iterable[Any]]) -> list[Row]:
    numbered = []
    for number, cells in enumerate(rows, start=1):
        texts = [cell_text(cell) for cell in cells]
        numbered.append(Row(f"row {number}", texts))
    return numbered


def _column_names(table: Any) -> list[Any]:
    """The names of a table's columns; [] for what has none. A DatasetDict has them by split."""
    names: Any = getattr(table, "column_names", None)
    if names is None:
        names = getattr(table, "columns", ())
    if isinstance(names, Mapping) or callable(names):
        return []
    return list(names)


def _named_rows(table: Any, columns: Sequence[Any]) -> Iterable[Iterable[Any]]:
    """The rows of a table of a library."""
    if hasattr(table, "itertuples"):  # pandas, where two columns may have one name
        return table.itertuples(index=False, name=None)  # type: ignore[no-any-return]
    if hasattr(table, "iter_rows"):  # polars
        return table.iter_rows()  # type: ignore[no-any-return]
    if hasattr(table, "to_pylist"):  # pyarrow
        table = table.to_pylist()
    return ([row[name] for name in columns] for row in table)


def _names_in(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of dictionaries, in order of first occurrence: one may lack some of them."""
    return list(dict.fromkeys(name for item in items for name in item))


def cell_text(value: Any) -> str:
    """A cell as text; "" for None, NaN and pandas' NA."""
    is_missing = pandas.api.types.is_scalar(value) and pandas.isna(value)
    return "" if is_missing else str(value)


def split_lines(path: Path, separator: str | None) -> list[Row]:
    """The cells of each line that is not blank. Quotes mean something in a .csv only.

    ``separator`` None: a tab if the first line has one, else any white space.
    """
    lines = _decode(path).split("\n")
    if path.suffix.lower() == ".csv":
        return _csv_rows(path, [f"{line}\n" for line in lines])

    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if separator is None and not rows and "\t" in line:
            separator = "\t"
        cells = line.rstrip("\r").split(separator)
        rows.append(Row(f"{path}, line {number}", cells))
    return rows


def _csv_rows(path: Path, lines: Iterable[str]) -> list[Row]:
    reader = csv.reader(lines, strict=True)
    rows = []
    try:
        for cells in reader:
            if "".join(cells).strip():
                rows.append(Row(f"{path}, line {reader.line_num}", cells))
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        raise UserError(f"{place}: {error}", ROWS_REMEDY, code="bad-csv") from None
    return rows


def _decode(path: Path) -> str:
    """The text of a file; its lines end at a newline only, not at U+2028 or U+0085."""
    raw = path.read_bytes().replace(b"\0", b"\xff")  # no text has zeros
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 text", "save the file as UTF-8", code="not-utf-8"
        ) from None


def json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place of each line, and the JSON object that it holds."""
    for row in split_lines(path, "\0"):
        try:
            item = json.loads(row.cells[0])
        except ValueError:
            item = None
        if not isinstance(item, dict):
            raise UserError(
                f"{row.place}: not a JSON object", "write an object on each line", code="bad-json"
            )
        yield row.place, item
