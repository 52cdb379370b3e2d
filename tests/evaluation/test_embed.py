"""Vectors and cosines of a task's sentences."""

import numpy as np
import pytest
import torch

from isotrope.errors import UserError
from isotrope.evaluation import sts
from isotrope.evaluation.embed import Embedded, dot
from isotrope.evaluation.sets.pairs import Pairs
from oracle.similarity import HashEncoder


def toy(n=40, name="toy", seed=0):
    generator = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    first, second = ([" ".join(generator.choice(words, 3)) for _ in range(n)] for _ in range(2))
    return Pairs(name, first, second, generator.integers(0, 6, n).astype(float))


class Fixed:
    """An encoder that returns what it is told, for n sentences."""

    def __init__(self, output):
        self.output = output

    def encode(self, sentences):
        return self.output(len(sentences))


@pytest.mark.parametrize("dimensions", [1, 7, 64, 100, 384])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_is_a_dot_product(dimensions, dtype):
    a, b = np.random.default_rng(0).standard_normal((2, 50, dimensions)).astype(dtype)
    product = dot(a, b)
    assert product.dtype == dtype
    exact = np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(product, exact, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_dot_adds_in_the_fixed_order():
    """Lane 0 meets lane 8 before lane 1: another order would lose the 1 beside 2^24, and tie-breaking would change."""
    a = np.zeros((1, 64), np.float32)
    a[0, 0], a[0, 8], a[0, 1] = 2**24, -(2**24), 1
    assert dot(a, np.ones_like(a))[0] == 1
    a[0, 1], a[0, 8] = -(2**24), 1
    assert dot(a, np.ones_like(a))[0] == 0


@pytest.mark.parametrize(
    "convert",
    [torch.tensor, lambda x: torch.tensor(x, requires_grad=True), lambda x: list(torch.tensor(x)), np.float64, list],
)
def test_any_kind_of_array_will_do(convert):
    class Converted(HashEncoder):
        def encode(self, sentences):
            return convert(super().encode(sentences))

    pairs = toy()
    expected = Embedded(HashEncoder(), pairs.first + pairs.second).cosines(pairs)
    got = Embedded(Converted(), pairs.first + pairs.second).cosines(pairs)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_half_precision_is_widened():
    pairs = toy()
    encoder = Fixed(lambda n: torch.randn(n, 8, generator=torch.Generator().manual_seed(0)).bfloat16())
    embedded = Embedded(encoder, pairs.first + pairs.second)
    assert embedded.vectors.dtype == np.float32
    assert np.abs(embedded.cosines(pairs)).max() <= 1 + 1e-6


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda n: np.zeros((n + 1, 3)), "shape"),
        (lambda n: np.zeros(n), "shape"),
        (lambda n: np.zeros((n, 0)), "shape"),
        (lambda n: np.full((n, 3), np.nan), "NaN"),
        (lambda n: np.full((n, 3), np.inf), "infinity"),
        (lambda n: np.full((n, 3), 1e30, np.float32), "beyond"),
        (lambda n: None, "shape"),
    ],
)
def test_bad_encoder_output_is_named(output, words):
    with pytest.raises(UserError, match=words) as caught:
        sts.evaluate_pairs(Fixed(output), toy())
    assert "encode()" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nan_names_the_sentence():
    pairs = toy()

    def one_bad(n):
        vectors = np.ones((n, 3))
        vectors[2, 1] = np.nan
        return vectors

    with pytest.raises(UserError, match=r"1 of .* sentences") as caught:
        sts.evaluate_pairs(Fixed(one_bad), pairs)
    assert repr(list(dict.fromkeys(pairs.first))[2]) in str(caught.value)


def test_no_encoder_at_all():
    with pytest.raises(UserError, match="'model' is not an encoder"):
        sts.evaluate_pairs("model", toy())
    with pytest.raises(UserError, match="is not an encoder"):
        sts.evaluate_pairs(object(), toy())
