"""Vectors of an earlier call are taken again, and only new texts are encoded."""

from pathlib import Path

import numpy as np
import pytest

from helpers.wordbag import Bag
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.vector_cache import VectorCache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))


def test_a_later_call_encodes_only_what_is_new() -> None:
    documents = ["the old king", "a river", "the moon"]
    first = RememberingEncoder(Bag(), cache_key="bag").encode(documents)

    bag, lines = Bag(), list[str]()
    again = RememberingEncoder(bag, cache_key="bag", say=lines.append)
    np.testing.assert_array_equal(again.encode(["a boat", *documents])[1:], first)
    assert bag.asked == ["a boat"]
    assert lines == ["3 of 4 texts were encoded by an earlier call"]


def test_another_model_or_role_has_vectors_of_its_own() -> None:
    VectorCache("model-query").keep(["a river"], np.ones((1, 2)))
    assert VectorCache("model-query").read(["a river", "the moon"]).keys() == {"a river"}
    assert VectorCache("model-document").read(["a river"]) == {}
    assert VectorCache("other-query").read(["a river"]) == {}


def test_damaged_vectors_count_as_missing(tmp_path: Path) -> None:
    cache = VectorCache("model-None")
    cache.keep(["a river"], np.ones((1, 2)))
    (file,) = (tmp_path / "cache").rglob("vectors.npy")
    file.write_bytes(file.read_bytes()[:-1])
    assert cache.read(["a river"]) == {}


def test_a_cache_that_cannot_be_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "file"))
    VectorCache("model-None").keep(["a river"], np.ones((1, 2)))
    assert VectorCache("model-None").read(["a river"]) == {}
