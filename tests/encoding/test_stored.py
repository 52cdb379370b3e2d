"""Outputs of `isotrope encode`, read again; anything else is one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hashes import Hashes
from isotrope.encoding.encode import encode
from isotrope.encoding.search import Stored
from isotrope.errors import UserError
from small_shards import KINDS

LINES = [f"{i} rivers" for i in range(30)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("\n".join(["text,id", *(f"{line},{i}" for i, line in enumerate(LINES))]) + "\n")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("name", KINDS)
def test_vectors_and_fields(tmp_path: Path, table: Path, name: str) -> None:
    stored = Stored(encode(Hashes(), table, tmp_path / name, text="text", keep="id", shard=11))
    assert (stored.rows, stored.dimension) == (30, 16)
    pieces = list(stored.pieces(4))
    assert max(map(len, pieces)) == 4
    np.testing.assert_array_equal(np.concatenate(pieces), Hashes().encode(LINES))
    pieces[0] += 1  # its own memory
    np.testing.assert_array_equal(next(stored.pieces(4)), Hashes().encode(LINES[:4]))
    text = {} if name == "v.npy" else {"text": "22 rivers"}
    assert stored.fields([22, 3])[22] == {**text, "id": "22"}
    assert list(stored.fields([22, 3, 3])) == [3, 22]
    if name == "v.npy":
        assert stored.manifest is None
    else:
        assert stored.manifest is not None
        assert (stored.manifest["rows"], stored.manifest["model"]) == (30, f"{Hashes.__module__}.Hashes")


def unfinished(folder: Path) -> Path:
    """Stopped after a shard."""

    class Stops(Hashes):
        def encode(self, sentences: list[str]) -> np.ndarray:
            if LINES[20] in sentences:
                raise KeyboardInterrupt
            return super().encode(sentences)

    with pytest.raises(KeyboardInterrupt):
        encode(Stops(), folder / "rows.csv", folder / "u", text="text", shard=11)
    return folder / "u"


def without_a_shard(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "w", text="text", shard=11)
    (output / "part-00001.parquet").unlink()
    return output


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def array(folder: Path, values: np.ndarray) -> Path:
    np.save(folder / "a.npy", values)
    return folder / "a.npy"


def parquet(folder: Path, columns: dict[str, pa.Array], about: dict[str, str] | None = None) -> Path:
    pq.write_table(pa.table(columns).replace_schema_metadata(about), folder / "p.parquet")
    return folder / "p.parquet"


def other_kept_rows(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "k.npy", text="text", keep="id")
    pq.write_table(pa.table({"id": ["1"]}), folder / "k.kept.parquet")
    return output


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing": (lambda f: f / "no", "no does not exist: give what isotrope encode wrote"),
    "other folder": (lambda f: f, r"has no _manifest\.json: give what"),
    "unfinished": (unfinished, "u is not finished: give the command isotrope encode again"),
    "lacks a shard": (without_a_shard, r"w cannot be read \(it has 19 of 30 rows\): encode the texts again"),
    "cut Parquet": (lambda f: written(f, "c.parquet", b"PAR1 no"), r"c\.parquet cannot be read .*: encode the texts"),
    "cut array": (lambda f: written(f, "c.npy", b"\x93NUMPY"), r"c\.npy cannot be read"),
    "short array": (lambda f: written(f, "s.npy", array(f, np.ones((9, 4), "f4")).read_bytes()[:-4]), "cannot be read"),
    "one row": (lambda f: array(f, np.ones(4, np.float32)), r"float32 numbers of shape \(4,\), not"),
    "objects": (lambda f: array(f, np.array([[{}]])), r"a\.npy cannot be read"),
    "no vectors": (lambda f: parquet(f, {"text": pa.array(["a"])}), "p.parquet cannot be read .*embedding"),
    "kept rows": (other_kept_rows, r"k\.kept\.parquet has 1 rows, and this array 30"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, table: Path, case: str) -> None:
    make, problem = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(UserError, match=problem):
        Stored(path)
