"""Encoding in bf16: close to float32, the same on every call, and nothing else about the model is
changed.
"""

import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers.refusals import refused
from helpers.small_encoders import KINDS, as_student, batch, both, states
from helpers.words import sentences
from isotrope import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.fast import dtype as choice
from isotrope.encoder.fast.dtype import choose_dtype, dtype_of, multiply_in
from isotrope.encoder.fast.half import Linear16, has_bf16
from isotrope.encoder.fast.packed import layers

needs_bf16 = pytest.mark.skipif(not has_bf16(), reason="this processor has no bf16")
TEXTS = [*sentences(40), "", "river " * 30]


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


@needs_bf16
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_states_of_every_architecture_are_close(kind: str, holes: bool) -> None:
    _, packed = both(kind)
    packed.requires_grad_(False)
    features = batch(holes)
    expected = states(packed, features)
    multiply_in(packed, "bf16")
    found = states(packed, features)
    assert found.dtype == torch.float32
    # rounded, and not much
    assert 1e-4 < (found - expected).abs().max() < 0.1 * expected.abs().max()
    multiply_in(packed, "float32")
    assert torch.equal(states(packed, features), expected)
    multiply_in(packed.requires_grad_(True), "bf16")  # not rounded
    torch.testing.assert_close(states(packed, features), expected, atol=1e-5, rtol=1e-5)


@needs_bf16
def test_scores_are_made_for_few_heads_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that long texts need little memory; the numbers are the same."""
    _, packed = both("Bert")
    multiply_in(packed.requires_grad_(False), "bf16")
    heads, real = list[int](), torch.baddbmm
    monkeypatch.setattr(
        torch,
        "baddbmm",
        lambda bias, q, k, **rest: heads.append(len(q)) or real(bias, q, k, **rest),
    )
    with torch.no_grad():
        expected = states(packed, batch())
        monkeypatch.setattr("isotrope.encoder.fast.attention.SCORES", 3 * 16 * 16)
        assert torch.equal(states(packed, batch()), expected)
    assert heads == [10, 10, *[3, 3, 3, 1] * 2]


@needs_bf16
@pytest.mark.parametrize("kind", ["Bert", "ModernBert", "MPNet"])
def test_vectors_are_close_and_always_the_same(kind: str, tmp_path: Path) -> None:
    as_student(kind, tmp_path)
    whole, half = (
        load(tmp_path, "mean", device="cpu", frozen=True, dtype=name)
        for name in ("float32", "bf16")
    )
    expected, found = (vectors_of(model, TEXTS, batch_size=8) for model in (whole, half))
    assert found.dtype == np.float32
    assert cosines(found, expected).min() > 0.999
    assert np.abs(found - expected).max() > 1e-4
    again = load(tmp_path, "mean", device="cpu", dtype="bf16")
    assert np.array_equal(found, vectors_of(again, TEXTS, batch_size=8))
    assert np.array_equal(found[::-1], vectors_of(again, TEXTS[::-1], batch_size=8))
    assert cosines(found, vectors_of(again, TEXTS, batch_size=3)).min() > 0.9999


@needs_bf16
def test_only_the_layers_multiply_in_16_bits(tiny_model: Path) -> None:
    """Their weights stay in float32, so a saved model, its checksum and a copy are those of the
    float32 one.
    """
    plain, half = (
        load(tiny_model, "cls_head", device="cpu"),
        load(tiny_model, "cls_head", device="cpu", dtype="bf16"),
    )
    linear = [module for module in half.modules() if isinstance(module, nn.Linear)]
    inside = [
        module for module in layers(half[0].auto_model).modules() if isinstance(module, nn.Linear)
    ]
    assert {type(module) for module in inside} == {Linear16}
    assert {type(module) for module in linear if not any(module is one for one in inside)} == {
        nn.Linear
    }
    assert (dtype_of(plain), dtype_of(half)) == ("float32", "bf16")
    vectors = half.encode(TEXTS)
    assert not any(weight.requires_grad for weight in half.parameters())
    assert model_checksum(half) == model_checksum(plain)
    # a copy has no laid-out weights
    for copy in (deepcopy(half), pickle.loads(pickle.dumps(half))):
        assert np.array_equal(copy.encode(TEXTS), vectors)


def test_refusals(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "has_bf16", lambda: False)
    monkeypatch.setattr(choice, "has_int8", lambda: False)
    reasons = {
        "bf16": "dtype-does-not-suit",
        "int8": "dtype-does-not-suit",
        "half": "unknown-name",
    }
    for dtype, why in reasons.items():
        with refused(why):
            load(tiny_model, device="cpu", dtype=dtype)
    assert dtype_of(load(tiny_model, device="cpu", dtype="auto")) == "float32"
    monkeypatch.setattr(choice, "has_bf16", lambda: True)
    assert "needs packed = True" in choice.why_not("bf16", None, "cpu", packed=False)
    assert "does not pack" in choice.why_not("bf16", None, "cpu")
    assert "the model is elsewhere" in choice.why_not("bf16", None, "cuda")


@needs_bf16
@pytest.mark.parametrize(
    ("faster", "above", "expected"), [(0, 0, "bf16"), (99, 0, "float32"), (0, 1e-7, "float32")]
)
def test_auto_measures_once(
    faster: float,
    above: float,
    expected: str,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both limits count, the second for each text; it is remembered, whatever another measurement
    would say.
    """
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "NARROW", ("bf16",))
    monkeypatch.setattr(choice, "FASTER", faster)
    model = load(tiny_model, device="cpu", frozen=True)
    whole, half = (
        vectors_of(load(tiny_model, device="cpu", dtype=name), TEXTS)
        for name in ("float32", "bf16")
    )
    monkeypatch.setattr(choice, "CLOSE", cosines(whole, half).min() + above - 1e-8)
    choose_dtype(model, TEXTS)
    assert dtype_of(model) == expected
    monkeypatch.setattr(choice, "FASTER", 99 if expected == "bf16" else 0)
    monkeypatch.setattr(choice, "CLOSE", 0.9)
    again = load(tiny_model, device="cpu", frozen=True)
    choose_dtype(again, TEXTS)
    assert dtype_of(again) == expected
    assert len(list(tmp_path.glob("dtype/*.json"))) == 1
