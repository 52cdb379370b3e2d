"""Products in float32 keep their precision, whichever library multiplies, and leave torch's setting
as it was.
"""

import numpy as np
import pytest
import torch

from helpers.words import sentences
from isotrope import load
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.fast import products

needs_onednn = pytest.mark.skipif(
    not products.uses_onednn(), reason="needs an AMD processor with AVX-512, and torch 2.9"
)


def precision() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


@needs_onednn
@pytest.mark.parametrize("shape", [(1600, 384, 1536), (33, 17, 5)])
def test_a_product_keeps_the_precision_of_float32(shape):
    rows, inner, columns = shape
    x = torch.randn(rows, inner, requires_grad=True)
    weight = torch.randn(columns, inner, requires_grad=True)
    with products.fast_products():
        product = x @ weight.T
        product.square().sum().backward()

    expected = x.detach().double() @ weight.detach().double().T
    torch.testing.assert_close(product.double(), expected, rtol=1e-4, atol=1e-4)
    gradient = 2 * expected.T @ x.detach().double()
    torch.testing.assert_close(weight.grad.double(), gradient, rtol=1e-4, atol=1e-2)


@needs_onednn
def test_the_setting_holds_within_the_block_alone():
    before = precision()
    with products.fast_products():
        assert precision() != before
        assert products.are_onednn()
    assert precision() == before
    assert not products.are_onednn()


@needs_onednn
def test_vectors_are_those_of_torchs_own_products(monkeypatch):
    model = load("isotrope/tiny", device="cpu")
    texts = sentences(40)
    fast = vectors_of(model, texts)
    products.uses_onednn.cache_clear()
    monkeypatch.setattr(products, "_is_amd", lambda: False)
    plain = vectors_of(model, texts)
    products.uses_onednn.cache_clear()
    np.testing.assert_allclose(fast, plain, atol=1e-5)


def test_a_processor_that_rounds_keeps_torchs_own_products(monkeypatch):
    monkeypatch.setattr(products, "_is_exact", lambda: False)
    products.uses_onednn.cache_clear()
    before = precision()
    with products.fast_products():
        assert precision() == before
    products.uses_onednn.cache_clear()


def test_a_product_that_is_rounded_is_found(monkeypatch):
    exact = torch.mm
    assert products._is_exact()

    def rounded(a, b):
        return (
            exact(a, b) if a.dtype == torch.float64 else exact(a.bfloat16(), b.bfloat16()).float()
        )

    monkeypatch.setattr(torch, "mm", rounded)
    assert not products._is_exact()
