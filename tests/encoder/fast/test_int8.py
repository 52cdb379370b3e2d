"""Encoding in 8 bits: close to float32, the same on every call, and nothing else about the model is
changed.
"""

import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.small_encoders import KINDS, both
from helpers.words import sentences
from isotrope import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.fast import int8
from isotrope.encoder.fast.dtype import dtype_of, multiply_in, quantise, same_hits
from isotrope.encoder.fast.int8 import Grid, Linear8, best_grid, has_int8
from isotrope.encoder.fast.packed import layers

needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor has no 8-bit products")
TEXTS = [*sentences(40), "", "river " * 30]


def inputs_and_weight() -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs with one channel that is a hundred times as large as the others."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 64, generator=generator)
    inputs[:, 3] *= 100
    weight = torch.randn(48, 64, generator=generator)
    return inputs, weight


def test_smoothing_helps_where_one_channel_is_large() -> None:
    inputs, weight = inputs_and_weight()
    grid, error = best_grid(inputs, weight)
    plain = Grid(
        torch.ones(64),
        float(inputs.max() - inputs.min()) / 255,
        round(float(-inputs.min() / (inputs.max() - inputs.min())) * 255),
        weight.abs().amax(dim=1) / 127,
    )
    assert error == grid.error(inputs, weight) < plain.error(inputs, weight) / 2


@needs_int8
def test_a_layer_gives_what_its_grid_says() -> None:
    inputs, weight = inputs_and_weight()
    layer = torch.nn.Linear(64, 48).requires_grad_(False)
    layer.weight.copy_(weight)
    layer.grid, _ = best_grid(inputs, weight)  # type: ignore[assignment]
    exact = layer(inputs)
    layer.__class__ = Linear8
    steps = layer.grid.round_inputs(inputs).float() - layer.grid.zero
    rounded = steps @ layer.grid.round_weight(weight).float().T
    expected = rounded * layer.grid.step * layer.grid.weight_steps + layer.bias
    torch.testing.assert_close(layer(inputs), expected, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(layer(inputs[None])[0], layer(inputs))
    assert not torch.allclose(exact, layer(inputs), atol=1e-3)
    layer.requires_grad_(True)
    torch.testing.assert_close(layer(inputs), exact)


@needs_int8
def test_the_largest_numbers_do_not_overflow() -> None:
    """Processors without VNNI add two products in 16 bits."""
    layer = torch.nn.Linear(64, 8, bias=False).requires_grad_(False)
    layer.weight.fill_(1.0)
    inputs = torch.ones(5, 64)
    layer.grid = Grid.of(inputs, layer.weight, smoothing=0.5, clip=1.0)  # type: ignore[assignment]
    layer.__class__ = Linear8
    torch.testing.assert_close(layer(inputs), torch.full((5, 8), 64.0))


@needs_int8
@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_every_architecture_have_a_grid(kind: str) -> None:
    """The classes of the layers go there and back."""
    _, packed = both(kind)
    packed.requires_grad_(False)
    linear = [each for each in layers(packed).modules() if type(each) is torch.nn.Linear]
    for layer in linear:
        layer.grid = best_grid(torch.randn(20, layer.in_features), layer.weight)[0]
    multiply_in(packed, "int8")
    assert {type(layer) for layer in linear} == {Linear8}
    multiply_in(packed, "float32")
    assert {type(layer) for layer in linear} == {torch.nn.Linear}


@needs_int8
def test_vectors_are_close_and_always_the_same(tiny_model: Path) -> None:
    plain = load(tiny_model, device="cpu", frozen=True)
    model = load(tiny_model, device="cpu", dtype="int8", sample=TEXTS)
    assert (dtype_of(plain), dtype_of(model)) == ("float32", "int8")
    assert model_checksum(model) == model_checksum(plain)
    exact, vectors = plain.encode(TEXTS), model.encode(TEXTS)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(vectors, axis=1)
    assert ((exact * vectors).sum(axis=1) / lengths).min() > 0.98
    assert np.abs(exact - vectors).max() > 1e-5

    again = load(tiny_model, device="cpu", dtype="int8", sample=TEXTS)
    for copy in (again, deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.encode(TEXTS), vectors)
    quantise(model, TEXTS)
    assert np.array_equal(model.encode(TEXTS), vectors)


@needs_int8
def test_layers_that_lose_much_stay_in_32_bits(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8, "SENSITIVE", 0.0)
    model = load(tiny_model, device="cpu", dtype="int8", sample=TEXTS)
    assert dtype_of(model) == "float32"


def test_the_same_hits_are_counted() -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert same_hits(vectors, vectors) == 1
    assert same_hits(vectors, -vectors) == 1  # the cosines are the same
    assert same_hits(vectors, vectors[::-1].copy()) < 0.5
