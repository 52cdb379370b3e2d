"""What `isotrope encode` wrote, read again: its vectors a piece at a time, its rows by number."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from isotrope.encoder.embed import Vectors
from isotrope.encoding.manifest import IDENTITY, MANIFEST, METADATA, Manifest
from isotrope.encoding.output import SUFFIX
from isotrope.encoding.rows import TEXT
from isotrope.encoding.shards import EMBEDDING
from isotrope.errors import UserError
from isotrope.store.files import read_record
from isotrope.store.job import FILES

_AGAIN = "encode the texts again"
_READ_ERRORS = (OSError, ValueError, EOFError, KeyError, TypeError, pa.ArrowException)


class VectorStore:
    """Vectors on disk, of which none is read before it is needed.

    Attributes:
        manifest: what they were made from.
        rows: their number.
        dimension: of each.
    """

    def __init__(self, path: str | Path) -> None:
        """``path``: OUT.parquet or a folder. UserError if it is neither, unfinished or damaged."""
        self.path = Path(path)
        is_file = self.path.is_file() and self.path.suffix == SUFFIX
        if not is_file and not (self.path / MANIFEST).is_file():
            if (self.path / IDENTITY).is_file():
                remedy = "give the command isotrope encode again"
                raise UserError(f"{path} is not finished", remedy, "unfinished-index")
            raise self._not_ours()

        with self._reading():
            # The pages of our files have checksums.
            pages = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
            self._table = ds.dataset(
                self.path, format=ds.ParquetFileFormat(default_fragment_scan_options=pages)
            )
            self.manifest = self._read_manifest()
            self.dimension = self._read_dimension()
            self.rows = self._table.count_rows()
            if self.rows != self.manifest.rows:
                raise ValueError(f"it has {self.rows:,} of {self.manifest.rows:,} rows")

    def _not_ours(self) -> UserError:
        problem = f"{self.path} is not an output of isotrope encode"
        return UserError(problem, f"give what it wrote: OUT{SUFFIX} or a folder", "no-index")

    def _read_manifest(self) -> Manifest:
        if self.path.is_dir():
            record = read_record(self.path / MANIFEST, ["made_from", "rows", "model"], _AGAIN)
            record.pop(FILES, None)
            return Manifest.from_record(record, self.path / MANIFEST)
        metadata = self._table.schema.metadata or {}
        if METADATA not in metadata:
            raise self._not_ours()
        return Manifest.from_record(json.loads(metadata[METADATA]), self.path)

    def _read_dimension(self) -> int:
        column: Any = self._table.schema.field(EMBEDDING).type
        if not pa.types.is_fixed_size_list(column) or column.value_type != pa.float32():
            raise ValueError(f"its column {EMBEDDING!r} does not hold float32 vectors")
        return int(column.list_size)

    def pieces(self, size: int) -> Iterator[Vectors]:
        """The vectors in their order, at most ``size`` rows at a time: copies (n, D), float32."""
        with self._reading():
            batches = self._table.to_batches(
                columns=[EMBEDDING], batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            for batch in batches:
                yield np.array(batch[EMBEDDING].flatten()).reshape(-1, self.dimension)

    def vectors(self) -> Vectors:
        """All of them: (N, D) float32."""
        array = np.empty((self.rows, self.dimension), dtype=np.float32)
        start = 0
        for piece in self.pieces(65_536):
            array[start : start + len(piece)] = piece
            start += len(piece)
        return array

    def texts(self) -> list[str]:
        """The text of every row."""
        with self._reading():
            texts = self._table.to_table(columns=[TEXT])
        return texts[TEXT].to_pylist()  # type: ignore[no-any-return]

    def fields(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Text and kept columns of these rows, by row."""
        numbers = sorted(set(rows))
        with self._reading():
            columns = [name for name in self._table.schema.names if name != EMBEDDING]
            records = self._table.take(numbers, columns=columns).to_pylist()
            return dict(zip(numbers, records, strict=True))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what can go wrong in a file of ours into a UserError that names it."""
        try:
            yield
        except UserError:
            raise
        except _READ_ERRORS as error:
            problem = f"{self.path} cannot be read ({error})"
            raise UserError(problem, _AGAIN, "damaged-index") from error
