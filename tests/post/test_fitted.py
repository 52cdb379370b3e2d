"""A step is fitted on the sentences that its name says."""

import gzip

import numpy as np

from conftest import sentences
from isotrope.evaluation.embed import Embedded
from isotrope.post.flow import Flow
from isotrope.post.whitening import Whitening, whitening
from oracle.similarity import HashEncoder
from toy_vectors import Rows


def test_the_target_is_what_is_encoded():
    base = Rows()
    encoder = Whitening(k=3).behind(base)
    texts = sentences(40)
    z = encoder.encode([*texts, texts[0]])
    assert base.calls == [texts]  # once, each distinct sentence
    np.testing.assert_array_equal(z[-1], z[0])
    np.testing.assert_allclose(z[:-1].T @ z[:-1] / 40, np.eye(3), atol=1e-4)
    assert not np.allclose(encoder.encode(texts[:20]), z[:20])  # fitted anew
    assert z.dtype == np.float32


def test_a_fit_that_was_asked_for_stays():
    encoder = Whitening(k=3).behind(Rows())
    texts = sentences(40)
    encoder.fit(texts)
    np.testing.assert_allclose(encoder.encode(texts[:20]), encoder.encode(texts)[:20], atol=1e-6)


def test_a_corpus_is_read_once_and_as_far_as_asked(tmp_path):
    texts, path = sentences(60), tmp_path / "corpus.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n\n".join(texts))
    base = Rows()
    encoder = Whitening(fit=str(path), sentences=30).behind(base)
    whole = encoder.encode(texts)
    np.testing.assert_array_equal(encoder.encode(texts[:5]), whole[:5])
    assert base.calls == [texts[:30], texts, texts[:5]]
    mean, matrix = whitening(Rows().encode(texts[:30]).astype(np.float64))
    np.testing.assert_allclose(whole, (Rows().encode(texts) - mean) @ matrix, atol=1e-4)


def test_steps_behind_each_other_are_fitted_in_turn():
    texts = sentences(50)
    encoder = Whitening(k=2).behind(Whitening(k=4).behind(Rows()))
    z = encoder.encode(texts)
    np.testing.assert_allclose(z.T @ z / 50, np.eye(2), atol=1e-4)
    np.testing.assert_allclose(encoder.fit(texts).encode(texts[:9]), z[:9], atol=1e-4)


def test_whitening_and_flow_make_the_space_isotropic():
    """What they are for: a common direction that every cosine shares goes away."""

    class Cone(HashEncoder):
        def encode(self, texts):
            return super().encode(texts) + 3

    texts = sentences(400)
    for encoder, most in ((Cone(), 1), (Whitening().behind(Cone()), 0.05), (Flow().behind(Cone()), 0.05)):
        unit = Embedded(encoder, texts).vectors
        unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
        cosine = float(np.mean((unit @ unit.T)[np.triu_indices(400, 1)]))
        assert cosine < most
        assert cosine > 0.9 or most < 1
