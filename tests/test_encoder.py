"""Encoders: every pooling saved and loaded by plain sentence-transformers; dropout; what a model of its own keeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.export import MODES
from isotrope.encoder.pooling import LAYERS
from isotrope.errors import UserError

TEXT = sentences(7)


def hidden_states(folder: Path) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor]:
    """All layers (B, L, D), the mask (B, L, 1) and the pooler's output, straight from transformers."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    features = tokenizer(TEXT, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**features, output_hidden_states=True)
    return output.hidden_states, features["attention_mask"].unsqueeze(-1), output.pooler_output


@pytest.mark.parametrize("pooling", list(LAYERS))
def test_pooling_means_what_its_name_says(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    states, mask, pooled = hidden_states(tiny_model)
    layers = {"first_last": (0, -1), "first_layer_last": (1, -1), "last_two": (-2, -1), "mean": (-1,)}
    if pooling == "cls":
        expected = states[-1][:, 0]
    elif pooling == "cls_head":
        expected = pooled
    else:
        chosen = torch.stack([states[i] for i in layers[pooling]]).mean(0)
        expected = (chosen * mask).sum(1) / mask.sum(1)
    encoder = load(tiny_model, pooling, device="cpu")
    found = encoder.encode(TEXT)
    assert np.allclose(found, expected.numpy(), atol=1e-5)
    save(encoder, tmp_path / "saved")
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.array_equal(plain.encode(TEXT), found)
    modules = json.loads((tmp_path / "saved" / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.models.") for module in modules)


def test_a_sentence_transformers_model_keeps_what_it_has(tiny_model: Path, tmp_path: Path) -> None:
    own = load(tiny_model, "cls", normalize=True, device="cpu")
    own.prompts, own.default_prompt_name = {"query": "song: "}, "query"
    own.max_seq_length = 17
    save(own, tmp_path / "own")
    again = load(tmp_path / "own", device="cpu")
    assert again.default_prompt_name == "query"
    assert again.max_seq_length == 17
    assert np.allclose(again.encode(TEXT), own.encode(TEXT), atol=1e-6)
    assert np.allclose(np.linalg.norm(again.encode(TEXT), axis=1), 1, atol=1e-5)
    asked = load(tmp_path / "own", "mean", device="cpu")
    assert asked.default_prompt_name == "query"
    assert not np.allclose(np.linalg.norm(asked.encode(TEXT), axis=1), 1, atol=1e-3)
    assert not np.allclose(
        np.linalg.norm(load(tmp_path / "own", normalize=False, device="cpu").encode(TEXT), axis=1), 1, atol=1e-3
    )


def test_dropout_is_set_everywhere_and_saved(tiny_model: Path, tmp_path: Path) -> None:
    encoder = load(tiny_model, dropout=0.37, device="cpu")
    assert {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)} == {0.37}
    save(encoder, tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.37


def test_modernbert_gets_dropout_and_so_two_views(tiny_model: Path, tmp_path: Path) -> None:
    """Its configuration has none; with the preset's 0.1 two passes differ."""
    from transformers import ModernBertConfig, ModernBertModel

    vocabulary = len(AutoTokenizer.from_pretrained(tiny_model))
    config = ModernBertConfig(
        vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    ModernBertModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    for dropout, equal in ((None, True), (0.1, False)):
        encoder = load(tmp_path, "cls", dropout=dropout, device="cpu").train()
        features = encoder.preprocess(TEXT)
        first, second = (encoder(dict(features))["sentence_embedding"] for _ in range(2))
        assert torch.equal(first, second) is equal


@pytest.mark.parametrize("length", [1, 1000])
def test_impossible_lengths_are_refused(tiny_model: Path, length: int) -> None:
    with pytest.raises(UserError, match=f"max_length = {length}"):
        load(tiny_model, max_length=length)


def test_a_hub_name_goes_to_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network's edge: the name reaches transformers untouched, remote code stays off, weights are safetensors."""
    asked: list[tuple[str, dict[str, object]]] = []

    def answer(name: str, **options: object) -> object:
        asked.append((name, options))
        return SimpleNamespace(hidden_dropout_prob=0.1)

    module = sys.modules["isotrope.encoder.load"]
    monkeypatch.setattr(module.AutoConfig, "from_pretrained", answer)
    monkeypatch.setattr(module, "SentenceTransformer", answer)
    load("bert-base-uncased", dropout=0.2, packed=False)
    (first, config), (second, model) = asked
    assert first == second == "bert-base-uncased"
    assert config["trust_remote_code"] is model["trust_remote_code"] is False
    assert model["model_kwargs"] == {"use_safetensors": True}
    assert model["config_kwargs"] == {"hidden_dropout_prob": 0.2}


@pytest.mark.parametrize("pooling", list(LAYERS))
def test_saved_settings_are_in_the_words_of_version_5(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    """Version 5.1.2 was run once on these folders and gave equal embeddings; its key names are pinned here."""
    save(load(tiny_model, pooling, device="cpu"), tmp_path / "saved")
    known = {
        "Transformer": {"max_seq_length", "do_lower_case"},
        "Pooling": {"word_embedding_dimension", "include_prompt", *MODES.values()},
        "WeightedLayerPooling": {"word_embedding_dimension", "layer_start", "num_hidden_layers"},
        "Dense": {"in_features", "out_features", "bias", "activation_function"},
    }
    for module in json.loads((tmp_path / "saved" / "modules.json").read_text()):
        kind = module["type"].rsplit(".", 1)[-1]
        name = "sentence_bert_config.json" if kind == "Transformer" else "config.json"
        settings = json.loads((tmp_path / "saved" / module["path"] / name).read_text())
        assert set(settings) == known[kind]


@pytest.mark.parametrize("kind", ["Roberta", "MPNet", "DistilBert", "Electra"])
def test_other_encoders_load_pool_and_drop(tiny_model: Path, tmp_path: Path, kind: str) -> None:
    """Hugging Face encoders of other kinds: random weights, the fixture's tokenizer, two views that differ."""
    import transformers

    vocabulary = len(AutoTokenizer.from_pretrained(tiny_model))
    shape = {"vocab_size": vocabulary, "max_position_embeddings": 80, "pad_token_id": 0}
    shape |= (
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
        if kind == "DistilBert"
        else {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    )
    config = getattr(transformers, f"{kind}Config")(**shape)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "model")
    for pooling in ("cls", "mean", "first_last"):
        encoder = load(tmp_path / "model", pooling, dropout=0.2, device="cpu")
        save(encoder, tmp_path / "saved")
        assert np.array_equal(load(tmp_path / "saved", device="cpu").encode(TEXT), encoder.encode(TEXT))
        features = encoder.train().preprocess(TEXT)
        first, second = (encoder(dict(features))["sentence_embedding"] for _ in range(2))
        assert first.shape == (7, 32)
        assert not torch.equal(first, second)


@pytest.mark.parametrize("kind", ["Roberta", "MPNet", "Bert"])
def test_a_sentence_is_cut_where_positions_end(tiny_model: Path, tmp_path: Path, kind: str) -> None:
    """The fixture's tokenizer promises 64 tokens; RoBERTa's positions begin behind the padding's index."""
    import transformers

    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    vocabulary = len(AutoTokenizer.from_pretrained(tiny_model))
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=vocabulary, max_position_embeddings=40, pad_token_id=0, **shape
    )
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    longest = {"Bert": 40, "Roberta": 39, "MPNet": 38}[kind]
    encoder = load(tmp_path, "mean", device="cpu")
    assert encoder.max_seq_length == longest
    assert np.isfinite(encoder.encode(["a b c " * 50])).all()
    with pytest.raises(UserError, match=f"choose 3 to {longest} tokens"):
        load(tmp_path, "mean", max_length=longest + 1)
