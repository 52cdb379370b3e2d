"""Smooth inverse frequency equals its definition."""

import numpy as np
import pytest

from isotrope.encoder.word_vectors import WordVectors
from isotrope.post.names import open_encoder
from isotrope.post.sif import Sif
from oracle import baselines as naive
from toy_vectors import TEXT, VECTORS, write_word_vectors


@pytest.fixture
def glove(tmp_path):
    return write_word_vectors(tmp_path)


@pytest.mark.parametrize(
    ("options", "kept"), [({}, 1), ({"remove": 0}, 0), ({"remove": 2, "a": 0.1}, 2)], ids=["default", "none", "two"]
)
def test_sif_equals_its_definition(glove, tmp_path, options, kept):
    counts = {"the": 60, "a": 30, "cat": 5, "dog": 4, "sat": 1}
    path = tmp_path / "counts.txt"
    path.write_text("".join(f"{word} {count}\n" for word, count in counts.items()))
    a = options.get("a", 1e-3)
    got = Sif(freq=str(path), **options).behind(WordVectors(glove)).encode(TEXT)
    np.testing.assert_allclose(got, naive.sif(VECTORS, TEXT, counts, a, kept), atol=1e-5)
    own = {"the": 5, "cat": 2, "sat": 2, "dog": 3, "a": 3}  # as often as they occur in the text
    got = Sif(**options).behind(WordVectors(glove)).encode(TEXT)
    np.testing.assert_allclose(got, naive.sif(VECTORS, TEXT, own, a, kept), atol=1e-5)


def test_sif_fitted_on_a_corpus_keeps_its_counts(glove, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXT))
    one = open_encoder(f"{glove}+sif:fit={corpus}")
    np.testing.assert_allclose(one.encode(["the cat sat"])[0], one.encode(TEXT)[0], atol=1e-6)
    target = open_encoder(f"{glove}+sif")
    np.testing.assert_allclose(target.encode(TEXT), one.encode(TEXT), atol=1e-6)
