"""Shortened vectors: against sentence-transformers, against the Hamming distance, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings, truncate_embeddings
from sklearn.preprocessing import normalize

from isotrope.errors import UserError
from isotrope.post.names import EncoderName
from isotrope.post.shortened import Shortened, shortened, shortenings

VECTORS = np.random.default_rng(0).normal(size=(30, 20)) + 0.3


@pytest.mark.parametrize("k", [None, 12])
def test_equals_sentence_transformers(k: int | None) -> None:
    cut = normalize(truncate_embeddings(VECTORS, k))
    assert np.allclose(shortened(VECTORS, k)(VECTORS), cut, rtol=1e-12)
    assert np.array_equal(shortened(VECTORS, k, "int8")(VECTORS), quantize_embeddings(cut, "int8"))


@pytest.mark.parametrize("k", [None, 5])  # 5: no whole number of bytes
def test_cosines_of_bits_order_as_the_hamming_distance(k: int | None) -> None:
    signs = shortened(VECTORS, k, "binary")(VECTORS)
    assert signs.shape == (30, k or 20)
    hamming = (signs[:, None] != signs[None]).sum(axis=-1)
    assert np.allclose(signs @ signs.T / signs.shape[1], 1 - 2 * hamming / signs.shape[1])
    packed = quantize_embeddings(VECTORS[:, :k], "ubinary")
    assert np.array_equal(signs > 0, np.unpackbits(packed, axis=1, count=k or 20) == 1)


def test_zeros_and_equal_vectors_stay_finite() -> None:
    for vectors in (np.zeros((3, 4)), np.ones((3, 4))):
        for precision in ("float32", "int8", "binary"):
            assert np.isfinite(shortened(vectors, 2, precision)(vectors)).all()  # type: ignore[arg-type]


def test_what_is_asked_for() -> None:
    assert [str(step) for step in shortenings("8, 4", "int8,binary")] == [
        "int8", "binary", "8 dimensions", "8 dimensions, int8", "8 dimensions, binary",
        "4 dimensions", "4 dimensions, int8", "4 dimensions, binary",
    ]  # fmt: skip
    assert shortenings(None, None) == []
    assert EncoderName.parse("m+shortened:k=4,precision=int8").steps == (Shortened(k=4, precision="int8"),)


@pytest.mark.parametrize(
    ("truncate", "precision", "said"),
    [
        ("64,x", None, "--truncate 'x' is not possible"),
        ("0", None, "--truncate '0' is not possible"),
        ("-3", None, "--truncate '-3' is not possible"),
        ("", None, "--truncate '' is not possible"),
        (None, "int4", "--precision 'int4' is unknown"),
    ],
)
def test_mistakes_are_named(truncate: str | None, precision: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        shortenings(truncate, precision)


def test_what_cannot_be_shortened() -> None:
    with pytest.raises(UserError, match="vectors of 20 dimensions cannot be cut to 21"):
        shortened(VECTORS, 21)
