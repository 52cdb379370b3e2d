"""A name says which encoder it opens; a mistake in it is found before a model is loaded."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isotrope
from conftest import sentences
from isotrope.errors import UserError
from isotrope.evaluation.embed import Known
from isotrope.post.fitted import FittedEncoder
from isotrope.post.flow import Flow
from isotrope.post.names import EncoderName, check_name, open_encoder
from isotrope.post.whitening import Removal, Whitening
from toy_vectors import write_word_vectors


@pytest.fixture
def glove(tmp_path):
    return write_word_vectors(tmp_path)


def test_names_are_taken_apart(tmp_path):
    name = EncoderName.parse("org/model@first_last+whitening:k=256,fit=wiki.txt,sentences=20000+flow:fit=wiki.txt")
    assert (name.source, name.pooling) == ("org/model", "first_last")
    assert name.steps == (Whitening(k=256, fit="wiki.txt", sentences=20000), Flow(fit="wiki.txt"))
    (odd := tmp_path / "a+b@c").mkdir()
    assert EncoderName.parse(str(odd)) == EncoderName(str(odd), None, ())
    assert EncoderName.parse(f"{odd}+whitening") == EncoderName(str(odd), None, (Whitening(),))
    assert EncoderName.parse("model+whitening:exponent=0.25").steps == (Whitening(exponent=0.25),)
    assert EncoderName.parse("model+removal+removal:k=3").steps == (Removal(), Removal(k=3))


def test_a_plain_name_is_the_model_and_a_pooling_its_own(tiny_model):
    texts = sentences(8)
    plain = isotrope.load(tiny_model).encode(texts)
    np.testing.assert_array_equal(open_encoder(str(tiny_model)).encode(texts), plain)
    expected = isotrope.load(tiny_model, "cls").encode(texts)
    for name, pooling in ((tiny_model, "cls"), (f"{tiny_model}@cls", None), (f"{tiny_model}@cls", "last_two")):
        np.testing.assert_array_equal(open_encoder(str(name), pooling).encode(texts), expected)


@pytest.mark.parametrize("step", ["whitening:k=5", "removal:k=2", "flow:epochs=2,depth=2", "whitening+flow"])
def test_a_named_baseline_is_an_encoder(tiny_model, step):
    texts = sentences(60)
    encoder = open_encoder(f"{tiny_model}@mean+{step}")
    assert isinstance(encoder, FittedEncoder)
    # the last LayerNorm of a fresh model centres its 32 channels: they vary in 31 directions
    expected = {"whitening:k=5": 5, "removal:k=2": 32, "flow:epochs=2,depth=2": 32, "whitening+flow": 31}[step]
    assert Known.of(encoder, texts).vectors.shape == (60, expected)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("isotrope/tiny@middle", "pooling = 'middle' is unknown: choose one of cls, mean"),
        ("isotrope/tiny+whitenin", r"no step 'whitenin': write one of \+whitening, \+removal, \+flow"),
        ("isotrope/tiny+whitening:q=3", r"q=3 is not possible: .*\+whitening:key=value,key=value of fit, sentences, k"),
        ("isotrope/tiny+whitening:k=0", "k=0 is not possible"),
        ("isotrope/tiny+whitening:256", "256= is not possible: .*key=value"),
        ("isotrope/tiny+whitening:fit=gone.txt", "gone.txt does not exist"),
        ("isotrope/tiny+whitening:sentences=9", "sentences = 9 of the target"),
        ("isotrope/tiny+flow+whitening:fit=wiki.txt", "behind a step that is fitted on the target"),
        ("isotrope/tiny+sif", r"\+sif weighs words: put it right behind a file"),
        ("gone/far/model+whitening", "gone/far/model does not exist"),
        ("+whitening", "holds no model"),
    ],
)
def test_mistakes_in_a_name_are_found_before_a_model_is_loaded(name, words):
    with pytest.raises(UserError, match=words):
        check_name(name)


def test_mistakes_in_files_are_named(glove, tmp_path):
    with pytest.raises(UserError, match="no prompts and no pooling: leave both out"):
        check_name(f"{glove}@cls")
    with pytest.raises(UserError, match=r"gone.txt cannot be read"):
        open_encoder(f"{glove}+sif:freq=gone.txt")
    with pytest.raises(UserError, match=r"\+sif weighs words"):
        check_name(f"{glove}+whitening+sif")
    check_name(f"{glove}+sif+whitening:k=2")
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
    glove.write_text("the 1 2 3\n")
    (tmp_path / "counts").write_text("the many\n")
    with pytest.raises(UserError, match="line 1: no word with its count"):
        open_encoder(f"{glove}+sif:freq={tmp_path / 'counts'}")


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab@+:=,/.k", max_size=12))
def test_no_name_ends_in_a_traceback(name):
    with contextlib.suppress(UserError):
        EncoderName.parse(name)
