"""Columns that are carried beside the vectors: the same rows in the same order, with their types."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.hashes import Hashes
from helpers.refusals import refused
from helpers.small_shards import KINDS, read, table_of, write
from isotrope.encoding import rows
from isotrope.encoding.encode import encode
from isotrope.errors import UserError


def json_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    return write(path, [json.dumps(row) for row in rows])


@pytest.mark.parametrize("name", KINDS)
def test_columns_stand_beside_their_vectors(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind blank lines and in other files; whole numbers stay so; null and fractions find
    one type.
    """
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    one = [{"id": i, "text": f"one {i}", "size": i, "tags": ["a"] * i} for i in range(5)]
    two = [
        {"size": 0.5, "id": 9, "text": None, "tags": None},
        {"size": None, "id": 10, "text": "two", "tags": []},
    ]
    files = [json_lines(tmp_path / "a.jsonl", one), json_lines(tmp_path / "b.jsonl", two)]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as stream:
        stream.write('\n{"id": 11, "text": "three", "size": 1, "tags": []}\n')
    output = encode(
        Hashes(), [*files, tmp_path / "c.jsonl.gz"], tmp_path / name, keep="id, size,tags", shard=3
    )
    found = table_of(output)
    assert found["id"].to_pylist() == [0, 1, 2, 3, 4, 9, 10, None, 11]
    assert found["size"].to_pylist() == [0, 1, 2, 3, 4, 0.5, None, None, 1]
    assert found["tags"].to_pylist()[:3] == [[], ["a"], ["a", "a"]]
    assert found.schema.field("id").type == pa.int64()
    assert found.column_names == ["text", "id", "size", "tags", "embedding"]
    texts = [f"one {i}" for i in range(5)] + ["", "two", "", "three"]
    np.testing.assert_array_equal(read(output), Hashes().encode(texts))
    assert not list(tmp_path.rglob("_rows.parquet"))


def test_columns_of_arrow_stay_as_they_are(tmp_path: Path) -> None:
    """Nanoseconds, time zones, maps, categories and structs: nothing is converted."""
    table = pa.table(
        {
            "text": ["x", "y"],
            "when": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "Europe/Paris")),
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
            "kind": pa.array(["u", "v"]).dictionary_encode(),
            "struct": pa.array([{"n": 1}, None], pa.struct([("n", pa.int8())])),
            "half": pa.array(np.array([1, 2], np.float16)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    keep = table.column_names[1:]
    encode(Hashes(), tmp_path / "a.parquet", tmp_path / "v.parquet", text_column="text", keep=keep)
    assert (
        pq.read_table(tmp_path / "v.parquet").select(table.column_names).replace_schema_metadata()
        == table
    )


def test_columns_of_tables(tmp_path: Path) -> None:
    """A .csv has strings; a kept column does not change which column is encoded."""
    write(tmp_path / "a.csv", ["id,title,text", '7,"A, b",x', "8,,y"])
    found = table_of(
        encode(Hashes(), tmp_path / "a.csv", tmp_path / "v.parquet", keep=["title", "id"])
    )
    assert found.select(["text", "title", "id"]).to_pydict() == {
        "text": ["x", "y"],
        "title": ["A, b", ""],
        "id": ["7", "8"],
    }


@pytest.mark.parametrize(
    ("keep", "problem"),
    [
        ("id,name", r"a.csv has no column 'name' \(columns: id, text\): name one of its columns"),
        ("embedding", "the output has a column of that name"),
        ("text", "the output has a column of that name"),
    ],
)
def test_columns_that_cannot_be_kept(tmp_path: Path, keep: str, problem: str) -> None:
    write(tmp_path / "a.csv", ["id,text", "7,x"])
    with pytest.raises(UserError, match=problem):
        encode(Hashes(), tmp_path / "a.csv", tmp_path / "v.parquet", keep=keep)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_values_that_have_no_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for values, problem in (
        ([1, "a"], "from .*a.jsonl:1 on"),
        ([1, 2, "a"], "from .*a.jsonl:3 on .*int64 and string"),
        ([{}, {}], "Parquet cannot hold"),
    ):
        monkeypatch.setattr(rows, "BATCH_ROWS", 2)
        file = json_lines(tmp_path / "a.jsonl", [{"text": "x", "id": value} for value in values])
        with pytest.raises(UserError, match=problem):
            encode(Hashes(), file, tmp_path / "v.parquet", keep="id")
    (tmp_path / "b.tsv").write_bytes(b"text\tid\nx\t\xff\n")
    with refused("column-type", "b.tsv"):
        encode(Hashes(), tmp_path / "b.tsv", tmp_path / "v.parquet", keep="id")
    with refused("not-a-table", "id"):
        encode(Hashes(), write(tmp_path / "c.txt", ["x"]), tmp_path / "v.parquet", keep="id")
