"""Files to encode in several shards, and what was written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KINDS = ["v.parquet", "v"]  # of outputs


def lines(corpus: Path, target: Path, count: int) -> Path:
    """``count`` different lines."""
    some = corpus.read_text(encoding="utf-8").splitlines()
    rows = [f"{some[i % len(some)]} {i // len(some)}" for i in range(count)]
    target.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """The parts and the manifest of an output folder."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.glob("*.*"))
        if not path.name.startswith(".")
    }


def stop_at(count: int) -> Callable[[int], None]:
    """For ``progress``: Ctrl-C when so many rows are done."""

    def stop(done: int) -> None:
        if done >= count:
            raise KeyboardInterrupt

    return stop


def write(path: Path, lines: list[str]) -> Path:
    """A file of these lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def table_of(output: Path) -> pa.Table:
    """All columns of any kind of output."""
    return pq.read_table(sorted(output.glob("part-*.parquet")) if output.is_dir() else output)


def read(output: Path) -> np.ndarray:
    """Vectors (N, D) of any kind of output."""
    table = table_of(output)
    assert pa.types.is_fixed_size_list(table.schema.field("embedding").type)
    return np.array(table["embedding"].to_pylist(), np.float32)
