"""Models that only encode: weights of 16 bits, vectors of 32."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import WORDS
from isotrope import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.stored import stored_half
from small_encoders import KINDS, as_student

TEXTS = [" ".join(WORDS[:3]), " ".join(WORDS[5:12]), WORDS[1]]


def narrow(folder: Path, kind: torch.dtype, *, asked: str = "float32") -> Path:
    """Store the weights of a model in 16 bits, in place; its configuration asks for ``asked``."""
    path = folder / "model.safetensors"
    save_file({name: value.to(kind) for name, value in load_file(path).items()}, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": asked}))
    return folder


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_the_vectors_are_those_of_32_bits(kind: str, stored: torch.dtype, tmp_path: Path) -> None:
    as_student(kind, tmp_path)
    narrow(tmp_path, stored)
    plain, frozen = load(tmp_path, "mean", device="cpu"), load(tmp_path, "mean", device="cpu", frozen=True)
    matrices = [weights for weights in frozen[0].auto_model.parameters() if weights.ndim == 2]
    assert {weights.dtype for weights in matrices} == {stored}
    assert not any(weights.requires_grad for weights in matrices)
    assert {weights.dtype for weights in plain.parameters()} == {torch.float32}
    found = frozen.encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, plain.encode(TEXTS))
    assert model_checksum(frozen) == model_checksum(plain)  # vectors of one are those of the other


def test_a_head_is_made_of_the_stored_weights(tiny_model: Path, tmp_path: Path) -> None:
    for path in tiny_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    narrow(tmp_path, torch.float16)
    for pooling in ("cls_head", "first_last", "embeddings"):
        plain, frozen = (load(tmp_path, pooling, device="cpu", frozen=frozen) for frozen in (False, True))
        np.testing.assert_array_equal(frozen.encode(TEXTS), plain.encode(TEXTS))


@pytest.mark.parametrize(("stored", "asked"), [(torch.float32, "float32"), (torch.float16, "float16")])
def test_other_models_are_loaded_as_ever(stored: torch.dtype, asked: str, tiny_model: Path, tmp_path: Path) -> None:
    """Weights of 32 bits, and a model that asks to compute with 16."""
    for path in tiny_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    narrow(tmp_path, stored, asked=asked)
    plain, frozen = (load(tmp_path, device="cpu", frozen=frozen) for frozen in (False, True))
    assert [weights.dtype for weights in frozen.parameters()] == [weights.dtype for weights in plain.parameters()]
    np.testing.assert_array_equal(frozen.encode(TEXTS), plain.encode(TEXTS))


def test_a_name_of_the_hub_has_no_file_here() -> None:
    assert stored_half("somebody/model", load("isotrope/tiny", device="cpu")[0].auto_model.config) is None
