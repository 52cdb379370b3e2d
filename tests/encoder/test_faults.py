"""A model whose files are broken or incomplete is one line; nothing is made up in its place."""

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
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn
from transformers import PreTrainedModel

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.faults import refuse_not_finite
from isotrope.errors import UserError

TEXT = sentences(7)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    """The model's weights, changed in their file."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
    return folder


BROKEN: dict[str, tuple[Callable[[str], bool], str]] = {
    "one": (lambda name: "layer.0.output.dense.weight" in name, r"1 of .*\(encoder.layer.0.output.dense.weight\)"),
    "a layer": (lambda name: "layer.1." in name, r"16 of .*layer\.1\.[^,]+, [^,]+, [^,]+, …\)"),
    "embeddings": (lambda name: "word_embeddings" in name, r"1 of .*\(embeddings.word_embeddings.weight\)"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("bare", [True, False])
def test_weights_that_lack_tensors_are_refused(tiny_model: Path, tmp_path: Path, kind: str, bare: bool) -> None:
    """transformers would make them up at random; a bare encoder's file and a sentence-transformers model's."""
    gone, message = BROKEN[kind]
    if bare:
        shutil.copytree(tiny_model, tmp_path / "model")
    else:
        save(load(tiny_model, "cls", device="cpu"), tmp_path / "model")
    folder = rewrite(tmp_path / "model", lambda weights: {k: v for k, v in weights.items() if not gone(k)})
    with pytest.raises(UserError, match=rf"model: model\.safetensors lacks {message}: copy or download"):
        load(folder, device="cpu")
    assert "told" not in str(PreTrainedModel.from_pretrained)  # nothing is left behind


def test_a_raw_checkpoint_lacks_its_pooler_and_has_other_heads(tiny_model: Path, tmp_path: Path) -> None:
    """As published ones do, with BERT's old names; only the pooling that reads the pooler misses it."""
    shutil.copytree(tiny_model, tmp_path / "model")

    def raw(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        kept = {f"bert.{name}": value for name, value in weights.items() if not name.startswith("pooler.")}
        old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
               for k, v in kept.items()}  # fmt: skip
        return old | {"cls.predictions.bias": torch.zeros(3), "cls.seq_relationship.bias": torch.zeros(2)}

    folder = rewrite(tmp_path / "model", raw)
    expected = load(tiny_model, "mean", device="cpu").encode(TEXT)
    assert np.allclose(load(folder, "mean", device="cpu").encode(TEXT), expected, atol=1e-6)
    with pytest.raises(UserError, match=r"lacks 2 of .* \(pooler\.dense\.bias, pooler\.dense\.weight\)"):
        load(folder, "cls_head", device="cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(
    tiny_model: Path, tmp_path: Path, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no text of today holds the word that they belong to."""
    monkeypatch.setattr("isotrope.encoder.faults._PART", 4)

    def spoil(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        weights["embeddings.word_embeddings.weight"][-1, 0] = value
        return weights

    folder = rewrite(Path(shutil.copytree(tiny_model, tmp_path / "model")), spoil)
    with pytest.raises(UserError, match=r"not all weights of .*word_embeddings.weight are finite"):
        load(folder)


def test_a_weight_without_dimensions_is_looked_at_too() -> None:
    """CLIP has one."""
    model: Any = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.0))
    refuse_not_finite(model, "m")
    model.scale.data.fill_(torch.nan)
    with pytest.raises(UserError, match="not all weights of scale are finite"):
        refuse_not_finite(model, "m")


@pytest.mark.parametrize(("key", "value"), [("hidden_size", "x"), ("num_hidden_layers", -1), ("vocab_size", 10**30)])
def test_sizes_that_no_encoder_has_are_refused(tiny_model: Path, tmp_path: Path, key: str, value: object) -> None:
    """-1 layers were accepted: every sentence had the same vector."""
    shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(UserError, match=rf"model: config\.json.* {key}|{key}.* expected int, got") as caught:
        load(tmp_path / "model", device="cpu")
    assert "correct it" in caught.value.remedy


@pytest.mark.parametrize("content", ["null", "[1]", '{"model_type": [1]}', '{"hidden_act": 3, "model_type": "bert"}'])
def test_a_configuration_that_is_none_is_one_line(tiny_model: Path, tmp_path: Path, content: str) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(content)
    with pytest.raises(UserError, match="model"):
        load(tmp_path / "model", device="cpu")


def test_models_that_are_no_language_models_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    routes = [[Transformer(str(tiny_model)), Pooling(32)] for _ in range(2)]
    router = SentenceTransformer(modules=[Router.for_query_document(*routes)], device="cpu")
    router.save_pretrained(str(tmp_path / "router"), create_model_card=False)
    with pytest.raises(UserError, match="begins with a Router, not with a Transformer"):
        load(tmp_path / "router")


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            "needs a package .*: install",
        ),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "needs a package .*: install it, or take that"),
        ({"quantization_config": 3}, "cannot be loaded"),
        ({"attn_implementation": "flash_attention_2"}, "needs a package .*: install it, or take that setting out"),
        ({"attn_implementation": "nobodys"}, "cannot be loaded"),
    ],
)
def test_settings_that_this_machine_cannot_follow_are_one_line(
    tiny_model: Path, tmp_path: Path, asked: dict[str, object], problem: str
) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | asked))
    with pytest.raises(UserError, match=problem):
        load(folder, device="cpu")
