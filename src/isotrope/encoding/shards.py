"""A shard is a task: it reads its own rows, encodes them, and writes its own file.

The task runs in this process or in another one (`isotrope.encoding.engines`).
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotrope.encoder.embed import vectors_of
from isotrope.errors import UserError
from isotrope.store.files import file_checksum, new_file
from isotrope.store.remote import is_url, remote_files, upload
from isotrope.types import Encoder

EMBEDDING = "embedding"  # the last column of a part
# Readers check the checksums of pages.
WRITE_OPTIONS: dict[str, Any] = {"use_dictionary": ["text"], "write_page_checksum": True}

Report = Callable[[int], None]  # is told how many rows of a shard are done


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The written file of a shard."""

    shard: int
    rows: int
    checksum: str  # of the file

    @property
    def name(self) -> str:
        """The name of the file."""
        return part_name(self.shard)


def part_name(shard: int) -> str:
    """The name of a shard's file."""
    return f"part-{shard:05d}.parquet"


@dataclass(frozen=True)
class ShardTask:
    """What every shard needs."""

    rows: str  # the file or URL of `isotrope.encoding.rows.write_rows`
    target: str  # the folder or URL of the parts
    dimension: int
    batch_size: int  # texts of a forward pass, at most

    def encode(
        self, encoder: Encoder, shard: int, report: Report = lambda done: None
    ) -> WrittenPart:
        """Write the part of a shard."""
        table = self._add_vectors(encoder, *self._read(shard), report)
        if not is_url(self.target):
            return self._write(table, shard, Path(self.target))
        with tempfile.TemporaryDirectory(prefix="isotrope-") as folder:
            part = self._write(table, shard, Path(folder))
            upload(Path(folder, part.name), f"{self.target}/{part.name}")
            return part

    def _read(self, shard: int) -> tuple[pa.Table, int]:
        """The rows of a shard, and the number of its first row."""
        file = remote_files(self.rows)[0].open() if is_url(self.rows) else self.rows
        with pq.ParquetFile(file) as rows:
            earlier = [rows.metadata.row_group(number).num_rows for number in range(shard)]
            return rows.read_row_group(shard), sum(earlier)

    def _add_vectors(
        self, encoder: Encoder, table: pa.Table, first_row: int, report: Report
    ) -> pa.Table:
        texts = table.column(0).to_pylist()

        def progress(done: int) -> None:
            if done < len(texts):  # the last ones are done when the part is written
                report(done)

        vectors = vectors_of(
            encoder, texts, batch_size=self.batch_size, first_row=first_row, progress=progress
        )  # (n, D)
        width = vectors.shape[1]
        if width != self.dimension:
            problem = f"encode() gave {width} dimensions after {self.dimension}"
            raise UserError(problem, "return vectors of one width", "mixed-dimensions")
        numbers = pa.array(vectors.reshape(-1), pa.float32())
        column = pa.FixedSizeListArray.from_arrays(numbers, self.dimension)
        return table.append_column(EMBEDDING, column)

    def _write(self, table: pa.Table, shard: int, folder: Path) -> WrittenPart:
        path = folder / part_name(shard)
        with new_file(path) as file:
            pq.write_table(table, file, row_group_size=len(table), **WRITE_OPTIONS)
        return WrittenPart(shard, len(table), file_checksum(path))
