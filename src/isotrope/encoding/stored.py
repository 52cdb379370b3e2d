"""What `isotrope encode` wrote, read again. A folder and OUT.parquet know their model and texts; OUT.npy does not."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from isotrope.encoder.embed import Vectors
from isotrope.encoding.output import IDENTITY, MANIFEST, METADATA, beside
from isotrope.encoding.tasks import EMBEDDING
from isotrope.errors import UserError
from isotrope.store.records import Record, read_record

_GIVE = "give what isotrope encode wrote: OUT.npy, OUT.parquet or a folder"
_AGAIN = "encode the texts again"


class Stored:
    """What `isotrope encode` wrote, read again: ``rows`` vectors of ``dimension`` on disk. None of them is read yet.

    ``manifest`` tells what they are made from; it is None for an array, which does not say it.
    """

    def __init__(self, path: str | Path) -> None:
        """``path``: OUT.npy, OUT.parquet or a folder."""
        self.path = Path(path)
        self.manifest: Record | None = None
        folder = self.path.is_dir()
        fault = ("", "")
        if not self.path.exists():
            fault = "does not exist", _GIVE
        elif not folder and self.path.suffix not in (".npy", ".parquet"):
            fault = "is not an output of isotrope encode", _GIVE
        elif folder and (self.path / IDENTITY).exists() and not (self.path / MANIFEST).exists():
            fault = "is not finished", "give the command isotrope encode again"
        elif folder and not (self.path / MANIFEST).exists():
            fault = f"has no {MANIFEST}", _GIVE
        if fault[0]:
            raise UserError(f"{path} {fault[0]}", fault[1])
        with self._reading():
            self._array() if self.path.suffix == ".npy" and not folder else self._parquet()

    def _array(self) -> None:
        array = np.lib.format.open_memmap(self.path, mode="r")
        if array.ndim != 2 or array.dtype != np.float32 or not array.size:
            raise ValueError(f"{array.dtype} numbers of shape {array.shape}, not one float32 vector a row")
        self.rows, self.dimension = array.shape
        kept = beside(self.path)
        self._table = ds.dataset(kept) if kept.exists() else None
        if self._table and (count := self._table.count_rows()) != self.rows:
            raise ValueError(f"{kept} has {count:,} rows, and this array {self.rows:,}")

    def _parquet(self) -> None:
        if self.path.is_dir():
            self.manifest = read_record(self.path / MANIFEST, {"rows": int, "model": str, "made_from": dict}, _AGAIN)
        self._table = ds.dataset(self.path)
        about = (self._table.schema.metadata or {}).get(METADATA)
        if about is not None:
            self.manifest = json.loads(about)
        self.rows = self._table.count_rows()
        if self.manifest and self.rows != self.manifest["rows"]:
            raise ValueError(f"it has {self.rows:,} of {self.manifest['rows']:,} rows")
        kind: Any = self._table.schema.field(EMBEDDING).type
        if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
            raise ValueError(f"its column {EMBEDDING!r} does not hold float32 vectors")
        self.dimension = kind.list_size

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order, at most ``size`` rows at a time: (n, D) float32, for the caller to change."""
        with self._reading():
            if self.manifest is None and self.path.suffix == ".npy":
                for start in range(0, self.rows, size):  # mapped again: pages that were read count as memory until then
                    yield np.array(np.lib.format.open_memmap(self.path, mode="r")[start : start + size])
            elif self._table:
                options = {"batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
                for batch in self._table.to_batches(columns=[EMBEDDING], **options):
                    yield np.array(batch[EMBEDDING].flatten()).reshape(-1, self.dimension)

    def texts(self) -> list[str]:
        """The text of every row, of an output that holds texts."""
        assert self._table is not None
        with self._reading():
            return [line or "" for line in self._table.to_table(columns=["text"])["text"].to_pylist()]

    def fields(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Text and kept columns of these rows, by row."""
        wanted = sorted(set(rows))
        if self._table is None:
            return {row: {} for row in wanted}
        with self._reading():
            columns = [name for name in self._table.schema.names if name != EMBEDDING]
            return dict(zip(wanted, self._table.take(wanted, columns=columns).to_pylist(), strict=True))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what can go wrong in a file of ours into a UserError that names it."""
        try:
            yield
        except UserError:
            raise
        except (OSError, ValueError, EOFError, KeyError, TypeError, pa.ArrowException) as error:
            raise UserError(f"{self.path} cannot be read ({error})", _AGAIN) from error
