"""A name says which encoder it opens; a step is fitted on the sentences that it says, and saved
with a model.
"""

import contextlib
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from helpers.refusals import refused
from helpers.toy_vectors import Rows, write_word_vectors
from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings
from isotrope.post.fitted import FittedEncoder, LinearStep, with_linear
from isotrope.post.flow import Flow
from isotrope.post.names import EncoderName, check_name, open_encoder
from isotrope.post.whitening import Whitening, whitening


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


@pytest.fixture
def glove(tmp_path):
    return write_word_vectors(tmp_path)


TEXTS = sentences(60)
STEPS = [Whitening(exponent=0.0), Whitening(exponent=0.25, k=7)]


def fitted(step: LinearStep, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ, W, and the vectors (x − μ) W with unit length."""
    mean, matrix = step.linear(vectors.astype(np.float64))
    moved = (vectors - mean) @ matrix
    return mean, matrix, moved / np.linalg.norm(moved, axis=1, keepdims=True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("pooling", ["mean", "first_last"])
def test_a_loaded_model_gives_the_fitted_vectors_with_unit_length(
    step: LinearStep, pooling: str, tiny_model: Path, tmp_path: Path
) -> None:
    encoder = load(tiny_model, pooling, normalize=True)
    before = encoder.encode(TEXTS)
    mean, matrix, expected = fitted(step, before)
    save(with_linear(encoder, mean, matrix), tmp_path / "new")
    for opened in (
        SentenceTransformer(str(tmp_path / "new"), device="cpu"),
        load(tmp_path / "new"),
    ):
        np.testing.assert_allclose(opened.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)  # as it was


def test_what_has_no_unit_length_gets_none_and_prompts_are_kept(
    prompted_model: Path, tmp_path: Path
) -> None:
    encoder = load(prompted_model, "mean", prompt_name="query")
    vectors = encoder.encode(TEXTS)
    mean, matrix = Whitening(exponent=0.0).linear(vectors.astype(np.float64))
    new = with_linear(encoder, mean, matrix)
    save(new, tmp_path / "new")
    opened = load(tmp_path / "new")
    assert (opened.prompts, opened.default_prompt_name) == (encoder.prompts, "query")
    np.testing.assert_allclose(opened.encode(TEXTS), (vectors - mean) @ matrix, atol=1e-5)
    assert not np.allclose(np.linalg.norm(opened.encode(TEXTS), axis=1), 1, atol=1e-3)


def test_vectors_that_are_cut_are_cut_inside(tiny_model: Path) -> None:
    encoder = load(tiny_model, "mean", normalize=True)
    encoder.truncate_dim = 8
    vectors = encoder.encode(TEXTS)
    mean, matrix = Whitening(exponent=0.0).linear(vectors.astype(np.float64))
    new = with_linear(encoder, mean, matrix)
    np.testing.assert_allclose(new.encode(TEXTS), (vectors - mean) @ matrix, atol=1e-5)
    assert (new.get_embedding_dimension(), encoder.truncate_dim) == (8, 8)


def test_names_are_taken_apart(tmp_path):
    name = EncoderName.parse(
        "org/model@first_last+whitening:k=256,fit=wiki.txt,sentences=20000+flow:fit=wiki.txt"
    )
    assert (name.source, name.pooling) == ("org/model", "first_last")
    assert name.steps == (Whitening(k=256, fit="wiki.txt", sentences=20000), Flow(fit="wiki.txt"))
    (odd := tmp_path / "a+b@c").mkdir()
    assert EncoderName.parse(str(odd)) == EncoderName(str(odd), None, ())
    assert EncoderName.parse(f"{odd}+whitening") == EncoderName(str(odd), None, (Whitening(),))
    assert EncoderName.parse("model+whitening:exponent=0.25").steps == (Whitening(exponent=0.25),)
    assert EncoderName.parse("model+flow+whitening:k=3").steps == (Flow(), Whitening(k=3))


def test_a_plain_name_is_the_model_and_a_pooling_its_own(tiny_model):
    texts = sentences(8)
    plain = load(tiny_model).encode(texts)
    np.testing.assert_array_equal(open_encoder(str(tiny_model)).encode(texts), plain)
    expected = load(tiny_model, "cls").encode(texts)
    for name, pooling in (
        (tiny_model, "cls"),
        (f"{tiny_model}@cls", None),
        (f"{tiny_model}@cls", "last_two"),
    ):
        np.testing.assert_array_equal(open_encoder(str(name), pooling).encode(texts), expected)


@pytest.mark.parametrize("step", ["whitening:k=5", "flow:epochs=2,depth=2", "whitening+flow"])
def test_a_named_baseline_is_an_encoder(tiny_model, step):
    texts = sentences(60)
    encoder = open_encoder(f"{tiny_model}@mean+{step}")
    assert isinstance(encoder, FittedEncoder)
    # the last LayerNorm of a fresh model centres its 32 channels: they vary in 31 directions
    expected = {
        "whitening:k=5": 5,
        "flow:epochs=2,depth=2": 32,
        "whitening+flow": 31,
    }[step]
    assert Embeddings.of(encoder, texts).vectors.shape == (60, expected)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("isotrope/tiny@middle", "pooling = 'middle' is unknown: choose one of cls, mean"),
        (
            "isotrope/tiny+whitenin",
            r"no step 'whitenin': write one of \+whitening, \+flow",
        ),
        (
            "isotrope/tiny+whitening:q=3",
            r"q=3 is not possible: .*\+whitening:key=value,key=value of fit, sentences, k",
        ),
        ("isotrope/tiny+whitening:k=0", "k=0 is not possible"),
        ("isotrope/tiny+whitening:256", "256= is not possible: .*key=value"),
        ("isotrope/tiny+whitening:fit=gone.txt", "gone.txt does not exist"),
        ("isotrope/tiny+whitening:sentences=9", "sentences = 9 of the target"),
        ("isotrope/tiny+flow+whitening:fit=wiki.txt", "after a step that is fitted on the target"),
        ("gone/far/model+whitening", "gone/far/model does not exist"),
        ("+whitening", "holds no model"),
    ],
)
def test_mistakes_in_a_name_are_found_before_a_model_is_loaded(name, words):
    with pytest.raises(UserError, match=words):
        check_name(name)


def test_mistakes_in_files_are_named(glove, tmp_path):
    with refused("no-pooling"):
        check_name(f"{glove}@cls")
    check_name(f"{glove}+whitening:k=2")
    for text, words in {
        "a b\n": "line 1: no word vector",
        "10 3\nno numbers here\n": "line 2: no word vector",
        "the 1 2 3\ncat 1 two 3\n": "line 2: not 3 numbers",
        "the 1 2 3\ncat 1 2 nan\n": "line 2: not 3 numbers",
        "\u00b2 \u00b2\nthe 1 2\n": "line 1: no word vector",
        "": "is empty",
    }.items():
        glove.write_text(text)
        with pytest.raises(UserError, match=words):
            open_encoder(str(glove)).encode(["the cat"])
    glove.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(UserError, match="not text"):
        open_encoder(str(glove))


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab@+:=,/.k", max_size=12))
def test_no_name_ends_in_a_traceback(name):
    with contextlib.suppress(UserError):
        EncoderName.parse(name)
