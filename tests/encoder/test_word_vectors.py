"""Averaged word vectors, from files as they are published."""

import gzip

import numpy as np
import pytest

from isotrope.encoder.word_vectors import WordVectors
from oracle import baselines as naive
from toy_vectors import TEXT, VECTORS, write_word_vectors


@pytest.fixture
def glove(tmp_path):
    return write_word_vectors(tmp_path)


def test_word_vectors_are_averaged(glove):
    got = WordVectors(glove).encode(TEXT)
    np.testing.assert_allclose(got, naive.averaged(VECTORS, TEXT), atol=1e-6)
    assert got[4].tolist() == [0, 0, 0]


def test_words_are_found_in_raw_text_too(glove):
    encoder = WordVectors(glove)
    (raw, plain, name) = encoder.encode(["The cat, the dog!", "the cat the dog", "Paris"])
    np.testing.assert_array_equal(raw, plain)
    assert name.tolist() == [9, 9, 9]
    assert encoder.encode(["paris"]).tolist() == [[0, 0, 0]]  # the file has it in capitals alone


def test_word2vec_and_compressed_files_say_the_same(glove, tmp_path):
    expected = WordVectors(glove).encode(TEXT)
    word2vec = tmp_path / "w2v.vec"
    word2vec.write_text(f"{len(VECTORS)} 3\n" + glove.read_text().replace("\n", " \n"))
    packed = tmp_path / "glove.txt.gz"
    packed.write_bytes(gzip.compress(glove.read_bytes()))
    for path in (word2vec, packed):
        np.testing.assert_array_equal(WordVectors(path).encode(TEXT), expected)


def test_words_with_spaces_are_passed_over(glove):
    """The large GloVe file has some; the first word of such a line is not that word."""
    glove.write_text(glove.read_text().replace("cat 0", "cat . 5 5 5\ncat 0"))
    np.testing.assert_allclose(WordVectors(glove).encode(["cat"]), [[0, 2, 0]])
