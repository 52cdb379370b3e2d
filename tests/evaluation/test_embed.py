"""Vectors and cosines of a task's sentences."""

import numpy as np
import pytest
import torch

from isotrope.evaluation.embed import Embedded, dot
from wordbag import own_pairs


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


def test_half_precision_is_widened():
    class Half:
        def encode(self, sentences):
            return torch.randn(len(sentences), 8, generator=torch.Generator().manual_seed(0)).bfloat16()

    pairs = own_pairs()
    embedded = Embedded(Half(), pairs.first + pairs.second)
    assert embedded.vectors.dtype == np.float32
    assert np.abs(embedded.cosines(pairs)).max() <= 1 + 1e-6
