"""The papers' baselines: each equals its definition, is fitted on what its name says, and is opened by that name."""

import contextlib
import gzip
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import isotrope
from conftest import sentences
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embedded
from isotrope.post.fitted import FittedEncoder
from isotrope.post.flow import ActNorm, Flow, Glow, negative_log_likelihood
from isotrope.post.names import EncoderName, check_name, open_encoder
from isotrope.post.sif import Sif
from isotrope.post.whitening import Whitening, whitening
from oracle import baselines as naive
from oracle.similarity import HashEncoder

TEXT = ["the cat sat", "the dog", "a cat and a dog", "the the the", "no such word", "sat dog a"]


def anisotropic(rows=200, dimensions=6, seed=0):
    """Rows with a large common mean, correlated channels and unlike variances: what raw backbones give."""
    generator = np.random.default_rng(seed)
    mixing = generator.standard_normal((dimensions, dimensions)) * generator.exponential(size=dimensions)
    return generator.standard_normal((rows, dimensions)) @ mixing + 5


class Rows:
    """An encoder whose vectors are drawn for each sentence anew: the same for the same sentence."""

    def __init__(self, dimensions=6):
        self.dimensions, self.calls = dimensions, []

    def encode(self, texts):
        self.calls.append(list(texts))
        seeds = [[ord(c) for c in text] for text in texts]
        return np.stack([anisotropic(1, self.dimensions, seed)[0] for seed in seeds]).astype(np.float32)


# Whitening


@pytest.mark.parametrize("k", [None, 1, 3, 6])
def test_whitening_has_the_identity_as_covariance(k):
    x = anisotropic()
    mean, matrix = whitening(x, k)
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(k or 6), atol=1e-9)


def test_whitening_equals_its_definition_up_to_signs():
    x = anisotropic(rows=60)
    mean, matrix = whitening(x, 4)
    np.testing.assert_allclose(np.abs((x - mean) @ matrix), np.abs(naive.whitening(x, 4)), atol=1e-6)


def test_whitening_keeps_the_directions_of_largest_variance():
    x = np.random.default_rng(0).standard_normal((500, 5)) * [1, 9, 3, 7, 5]
    _, matrix = whitening(x, 2)
    assert np.abs(matrix).argmax(axis=0).tolist() == [1, 3]


def test_whitening_leaves_out_directions_that_are_not_used():
    """Vectors whose channels add up to the same number, as a LayerNorm leaves them, in float32."""
    x = anisotropic(dimensions=6)
    x = (100 + x - x.mean(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    mean, matrix = whitening(x)
    assert matrix.shape == (6, 5)
    z = (x - mean) @ matrix
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(5), atol=1e-6)
    np.testing.assert_array_equal(whitening(x, 6)[1], matrix)


def test_whitening_wants_enough_sentences():
    with pytest.raises(UserError, match="6 sentences cannot whiten 6 dimensions: fit on more"):
        whitening(anisotropic(rows=6))
    assert whitening(anisotropic(rows=6), 3)[1].shape == (6, 3)
    with pytest.raises(UserError, match="k = 7 of 6 dimensions: choose k up to 6"):
        whitening(anisotropic(), 7)


# Flow

SHAPES = [("additive", "permutation"), ("affine", "permutation"), ("additive", "linear"), ("affine", "linear")]


def stirred(coupling, mixing, dim=5, depth=2):
    """A flow whose every weight is away from where it begins."""
    torch.manual_seed(0)
    glow = Glow(dim, depth, 7, coupling, mixing).double()
    for p in glow.parameters():
        if p.requires_grad:
            p.data += 0.3 * torch.randn_like(p)
    return glow


@pytest.mark.parametrize(("coupling", "mixing"), SHAPES)
def test_the_flows_volume_is_that_of_its_jacobian(coupling, mixing):
    glow = stirred(coupling, mixing)
    for x in torch.randn(4, 5, dtype=torch.float64):
        jacobian = torch.autograd.functional.jacobian(lambda row: glow(row[None])[0][0], x)
        assert glow(x[None])[1].item() == pytest.approx(torch.linalg.slogdet(jacobian).logabsdet.item(), abs=1e-9)


@pytest.mark.parametrize(("coupling", "mixing"), SHAPES)
def test_the_flow_is_invertible(coupling, mixing):
    glow, x = stirred(coupling, mixing, dim=7, depth=3), torch.randn(20, 7, dtype=torch.float64)
    torch.testing.assert_close(glow.inverse(glow(x)[0]), x, atol=1e-8, rtol=1e-8)


def test_the_likelihood_is_the_density():
    """One actnorm makes the flow a diagonal Gaussian, whose density torch knows; and it integrates to one."""
    glow = Glow(2, 1, 3, "additive", "permutation").double()
    x = torch.randn(100, 2, dtype=torch.float64) * torch.tensor([3.0, 0.5]) + 1
    glow.begin(x)
    normal = torch.distributions.Normal(x.mean(dim=0), x.std(dim=0, correction=0))
    expected = -normal.log_prob(x).sum(dim=1).mean().item() / 2
    assert negative_log_likelihood(*glow(x)).item() == pytest.approx(expected, abs=1e-12)
    glow, step = stirred("affine", "linear", dim=2), 0.05
    axis = torch.arange(-12, 12, step, dtype=torch.float64)
    z, volume = glow(torch.cartesian_prod(axis, axis))
    density = torch.exp(volume - (z**2).sum(dim=1) / 2) / (2 * math.pi)
    assert float(density.detach().sum()) * step**2 == pytest.approx(1, abs=0.02)


def test_actnorm_begins_with_mean_0_and_variance_1():
    x = torch.from_numpy(anisotropic())
    x[:, 2] = 7  # a constant channel stays finite
    norm = ActNorm(6).double()
    norm.begin(x)
    z = norm(x)[0]
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(6).double(), atol=1e-9, rtol=0)
    assert z.std(dim=0, correction=0).tolist() == pytest.approx([1, 1, 0, 1, 1, 1])


def test_the_fit_raises_the_likelihood_and_is_seeded():
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(600, 3, generator=generator)
    x = torch.cat([first, first**2 + 0.1 * torch.randn(600, 3, generator=generator)], dim=1)  # a bent sheet
    flow = Flow(epochs=10, depth=3, lr=1e-2)
    untrained = Glow(6, 3, 32, "additive", "permutation")
    untrained.begin(x)
    with torch.no_grad():
        before, after = (negative_log_likelihood(*glow(x)).item() for glow in (untrained, flow.train(x)))
    assert after < before - 0.2
    with torch.inference_mode():  # as an evaluation may run
        once, again = (flow.fitted(x.numpy())(x.numpy()) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, Flow(epochs=10, depth=3, lr=1e-2, seed=1).fitted(x.numpy())(x.numpy()))


def test_a_flow_that_diverges_is_named():
    with pytest.raises(UserError, match="diverged"):
        Flow(lr=1e30, epochs=3, coupling="affine").fitted(anisotropic())


# FittedEncoder encoders


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


# Word vectors

VECTORS = {
    "the": [1, 0, 0],
    "cat": [0, 2, 0],
    "dog": [0, 0, 3],
    "a": [1, 1, 1],
    "sat": [-1, 2, 0.5],
    "Paris": [9, 9, 9],
}


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items()))
    return path


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


# Names


def test_names_are_taken_apart(tmp_path):
    name = EncoderName.parse("org/model@first_last+whitening:k=256,fit=wiki.txt,sentences=20000+flow:fit=wiki.txt")
    assert (name.source, name.pooling) == ("org/model", "first_last")
    assert name.steps == (Whitening(k=256, fit="wiki.txt", sentences=20000), Flow(fit="wiki.txt"))
    odd = tmp_path / "a+b@c"
    odd.mkdir()
    assert EncoderName.parse(str(odd)) == EncoderName(str(odd), None, ())
    assert EncoderName.parse(f"{odd}+whitening") == EncoderName(str(odd), None, (Whitening(),))
    assert EncoderName.parse(f"{odd}@mean").pooling == "mean"


def test_a_plain_name_is_the_model_and_a_pooling_its_own(tiny_model):
    texts = sentences(8)
    plain = isotrope.load(tiny_model).encode(texts)
    np.testing.assert_array_equal(open_encoder(str(tiny_model)).encode(texts), plain)
    poolings = {
        p: isotrope.load(tiny_model, p).encode(texts) for p in ("cls", "first_last", "first_layer_last", "last_two")
    }
    for pooling, expected in poolings.items():
        np.testing.assert_array_equal(open_encoder(f"{tiny_model}@{pooling}").encode(texts), expected)
        np.testing.assert_array_equal(open_encoder(str(tiny_model), pooling).encode(texts), expected)
    own = open_encoder(f"{tiny_model}@cls", "last_two").encode(texts)  # the name's own goes before
    np.testing.assert_array_equal(own, poolings["cls"])
    # two readings of "first-last", and of two layers the first is the last but one
    assert not np.allclose(poolings["first_last"], poolings["first_layer_last"])
    np.testing.assert_allclose(poolings["first_layer_last"], poolings["last_two"], atol=1e-6)


@pytest.mark.parametrize("step", ["whitening:k=5", "flow:epochs=2,depth=2", "whitening+flow"])
def test_a_named_baseline_is_an_encoder(tiny_model, step):
    texts = sentences(60)
    encoder = open_encoder(f"{tiny_model}@mean+{step}")
    assert isinstance(encoder, FittedEncoder)
    # the last LayerNorm of a fresh model centres its 32 channels: they vary in 31 directions
    expected = {"whitening:k=5": 5, "flow:epochs=2,depth=2": 32, "whitening+flow": 31}[step]
    assert Embedded(encoder, texts).vectors.shape == (60, expected)


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("isotrope/tiny@middle", "pooling 'middle' is unknown: choose one of cls, mean"),
        ("isotrope/tiny+whitenin", r"no step 'whitenin': write one of \+whitening, \+flow, \+sif"),
        ("isotrope/tiny+whitening:q=3", r"\+whitening has no option 'q': choose from fit, sentences, k"),
        ("isotrope/tiny+whitening:k=0", "k=0 is not possible"),
        ("isotrope/tiny+whitening:k=many", "k=many is not possible"),
        ("isotrope/tiny+whitening:256", "'256' is no option: write"),
        ("isotrope/tiny+flow:coupling=none", "coupling=none is not possible"),
        ("isotrope/tiny+whitening:fit=gone.txt", "gone.txt does not exist"),
        ("isotrope/tiny+whitening:sentences=9", "sentences = 9 of the target"),
        ("isotrope/tiny+flow+whitening:fit=wiki.txt", "behind a step that is fitted on the target"),
        ("isotrope/tiny+sif", r"\+sif weighs words: put it right behind a file"),
        ("gone/far/model+whitening", "gone/far/model does not exist"),
        ("+whitening", "names no model"),
    ],
)
def test_mistakes_in_a_name_are_found_before_a_model_is_loaded(name, words):
    with pytest.raises(UserError, match=words):
        check_name(name)


def test_mistakes_in_files_are_named(glove, tmp_path):
    with pytest.raises(UserError, match="no pooling: leave @cls out"):
        check_name(f"{glove}@cls")
    with pytest.raises(UserError, match=r"freq = .* does not exist"):
        check_name(f"{glove}+sif:freq=gone.txt")
    with pytest.raises(UserError, match=r"\+sif weighs words"):
        check_name(f"{glove}+whitening+sif")
    check_name(f"{glove}+sif+whitening:k=2")
    bad = {
        "a b\n": "line 1: no word vector",
        "# a title\n\nand text\n": "line 1: no word vector",
        "10 3\nno numbers here\n": "line 2: no word vector",
        "the 1 2 3\ncat 1 two 3\n": "line 2: not 3 numbers",
        "the 1 2 3\ncat 1 2\n": "line 2: not 3 numbers",
        "the 1 2 3\ncat 1 2 nan\n": "line 2: not 3 numbers",
        "": "is empty",
    }
    for text, words in bad.items():
        glove.write_text(text)
        with pytest.raises(UserError, match=words):
            open_encoder(str(glove)).encode(["the cat"])
    (tmp_path / "bin").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(UserError, match="not text"):
        open_encoder(str(tmp_path / "bin"))
    glove.write_text("the 1 2 3\n")
    (tmp_path / "counts").write_text("the many\n")
    with pytest.raises(UserError, match="line 1: no word with its count"):
        open_encoder(f"{glove}+sif:freq={tmp_path / 'counts'}")


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab@+:=,/.k", max_size=12))
def test_no_name_ends_in_a_traceback(name):
    with contextlib.suppress(UserError):
        EncoderName.parse(name)
