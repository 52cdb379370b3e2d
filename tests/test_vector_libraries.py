"""What `isotrope encode` writes opens in faiss and usearch as it is, and they find the rows that we
find.
"""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.hashes import Hashes
from helpers.words import sentences
from isotrope.encoding.encode import encode
from isotrope.encoding.search import search

QUERIES = ["a river", "the old king", sentences(300)[7]]
TOP = 5


@pytest.fixture
def encoded(tmp_path: Path) -> dict[str, Path]:
    """The three kinds of output."""
    (tmp_path / "notes.txt").write_text("\n".join(sentences(300)) + "\n", encoding="utf-8")
    kinds = ("v.npy", "v.parquet", "v")
    return {
        kind: encode(Hashes(), tmp_path / "notes.txt", tmp_path / kind, shard=70) for kind in kinds
    }


def expected(encoded: dict[str, Path]) -> list[list[int]]:
    found = search(encoded["v"], QUERIES, top=TOP, model=Hashes())
    assert found[2][0].row == 7
    return [[hit.row for hit in hits] for hits in found]


def test_faiss(encoded: dict[str, Path]) -> None:
    import faiss

    vectors, queries = np.load(encoded["v.npy"]), Hashes().encode(QUERIES)
    faiss.normalize_L2(vectors)  # this encoder's rows have other lengths than 1
    faiss.normalize_L2(queries)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    assert index.search(queries, TOP)[1].tolist() == expected(encoded)


@pytest.mark.parametrize("mapped", [None, "r"])
def test_usearch(encoded: dict[str, Path], mapped: str | None) -> None:
    from usearch.index import Index

    vectors = np.load(encoded["v.npy"], mmap_mode=mapped)  # type: ignore[call-overload]
    index = Index(ndim=vectors.shape[1], metric="cos", dtype="f32")
    index.add(None, vectors)  # keys are row numbers
    assert index.search(Hashes().encode(QUERIES), TOP, exact=True).keys.tolist() == expected(
        encoded
    )
    assert index.search(Hashes().encode(QUERIES), TOP).keys[:, 0].tolist() == [
        row for row, *_ in expected(encoded)
    ]


def test_parquet_gives_the_array_without_a_copy(encoded: dict[str, Path]) -> None:
    column = pq.read_table(encoded["v.parquet"])["embedding"].chunk(0)
    vectors = column.values.to_numpy(zero_copy_only=True).reshape(len(column), -1)
    np.testing.assert_array_equal(vectors, np.load(encoded["v.npy"])[: len(vectors)])
