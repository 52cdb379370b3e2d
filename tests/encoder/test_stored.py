"""Models that only encode: weights of 16 bits, vectors of 32."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.sentence_transformer.modules import Dense
from transformers import AlbertConfig, AlbertModel, BertModel

from conftest import WORDS
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.stored import stored_half
from isotrope.errors import UserError
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
    assert frozen[0].auto_model.get_input_embeddings().weight.dtype == stored
    assert not any(weights.requires_grad for weights in frozen.parameters())
    assert {weights.dtype for weights in plain.parameters()} == {torch.float32}
    found = frozen.encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, plain.encode(TEXTS))
    assert model_checksum(frozen) == model_checksum(plain)  # vectors of one are those of the other


def copied(model: Path, folder: Path) -> Path:
    return Path(shutil.copytree(model, folder))


def test_a_head_is_made_of_the_stored_weights(tiny_model: Path, tmp_path: Path) -> None:
    folder = narrow(copied(tiny_model, tmp_path / "model"), torch.float16)
    for pooling in ("cls_head", "first_last", "embeddings"):
        plain, frozen = (load(folder, pooling, device="cpu", frozen=frozen) for frozen in (False, True))
        np.testing.assert_array_equal(frozen.encode(TEXTS), plain.encode(TEXTS))


def of_32_bits(folder: Path) -> None:
    narrow(folder, torch.float32)


def of_two_types(folder: Path) -> None:
    path = narrow(folder, torch.float16) / "model.safetensors"
    weights = load_file(path)
    save_file(weights | {"embeddings.LayerNorm.weight": weights["embeddings.LayerNorm.weight"].float()}, path)


def that_asks_for_16_bits(folder: Path) -> None:
    narrow(folder, torch.float16, asked="float16")


def that_asks_for_nothing(folder: Path) -> None:
    config = json.loads((narrow(folder, torch.float16) / "config.json").read_text())
    del config["dtype"]
    (folder / "config.json").write_text(json.dumps(config))


def saved_again(model: Any, folder: Path) -> None:
    save(model, folder.with_name("saved"))
    shutil.rmtree(folder)
    folder.with_name("saved").rename(folder)


def whose_settings_ask(folder: Path) -> None:
    saved_again(load(folder, device="cpu"), folder)
    narrow(folder, torch.float16)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"model_kwargs": {"dtype": "float16"}}))


def with_a_dense_head(folder: Path) -> None:
    model = load(folder, device="cpu")
    model.append(Dense(32, 8))
    saved_again(model, folder)
    narrow(folder, torch.float16)


def in_shards(folder: Path) -> None:
    model = BertModel.from_pretrained(narrow(folder, torch.float16), dtype=torch.float16)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))


def of_another_architecture(folder: Path) -> None:
    shape = {"hidden_size": 16, "embedding_size": 8, "num_attention_heads": 2, "intermediate_size": 24}
    AlbertModel(AlbertConfig(vocab_size=500, num_hidden_layers=1, **shape)).save_pretrained(folder)
    narrow(folder, torch.float16)


OTHERS = [of_32_bits, of_two_types, that_asks_for_16_bits, that_asks_for_nothing, whose_settings_ask,
          with_a_dense_head, in_shards, of_another_architecture]  # fmt: skip


@pytest.mark.parametrize("change", OTHERS, ids=lambda change: change.__name__)
def test_other_models_are_loaded_as_ever(change: Callable[[Path], None], tiny_model: Path, tmp_path: Path) -> None:
    folder = copied(tiny_model, tmp_path / "model")
    change(folder)
    plain, frozen = (load(folder, device="cpu", frozen=frozen) for frozen in (False, True))
    assert not getattr(frozen, "widened", False)
    assert [weights.dtype for weights in frozen.parameters()] == [weights.dtype for weights in plain.parameters()]
    np.testing.assert_array_equal(frozen.encode(TEXTS), plain.encode(TEXTS))


def test_a_broken_file_is_named(tiny_model: Path, tmp_path: Path) -> None:
    folder = copied(tiny_model, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs")
    with pytest.raises(UserError, match=r"model\.safetensors is broken"):
        load(folder, frozen=True)


def test_a_name_of_the_hub_has_no_file_here() -> None:
    assert stored_half("somebody/model", load("isotrope/tiny", device="cpu")[0].auto_model.config) is None
