"""Encoders: every pooling saved and loaded by plain sentence-transformers; dropout; what a model of its own keeps."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

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


def test_weights_of_another_architecture_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    count = len([name for name in load_file(tiny_model / "model.safetensors") if "pooler" not in name])
    folder = rewrite(tmp_path / "model", lambda weights: {f"other.{k}.scale": v for k, v in weights.items()})
    with pytest.raises(UserError, match=f"lacks {count} of the encoder's tensors"):
        load(folder, device="cpu")


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


@pytest.mark.parametrize("pooling", ["first_last", None])
def test_training_leaves_the_weights_of_layers(tiny_model: Path, tmp_path: Path, pooling: str | None) -> None:
    """A pooling's name says which layers count; a saved model's file does not say that their weights are fixed."""
    save(load(tiny_model, "first_last", device="cpu"), tmp_path / "saved")
    encoder = load(tmp_path / "saved", pooling, device="cpu").train()
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1.0)
    embeddings = encoder(encoder.preprocess(TEXT))["sentence_embedding"]
    embeddings.square().sum().backward()
    optimizer.step()
    (weights,) = (value for name, value in encoder.named_parameters() if name.endswith("layer_weights"))
    assert weights.tolist() == [1, 0, 1]
    assert not weights.requires_grad


@pytest.mark.parametrize("length", [1, 1000])
def test_impossible_lengths_are_refused(tiny_model: Path, length: int) -> None:
    with pytest.raises(UserError, match=f"max_length = {length}"):
        load(tiny_model, max_length=length)


def test_a_hub_name_goes_to_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network's edge: the name reaches transformers untouched, remote code stays off, weights are safetensors."""
    asked: list[tuple[str, dict[str, object]]] = []

    def answer(name: str, **options: object) -> object:
        asked.append((name, options))
        found = torch.nn.Module()
        found.hidden_dropout_prob = 0.1
        return found

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
