"""Loading an encoder: what it keeps, dropout, lengths, other architectures, broken configurations."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import metadata_load
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoTokenizer

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.embed import cut
from isotrope.encoder.load import dropout_keys
from isotrope.encoder.locate import SHIPPED, locate
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.sts import evaluate_pairs

TEXT = sentences(7)
CAUSAL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "num_key_value_heads": 2,
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("kind", "shape", "keys"),
    [
        ("GPT2", {"n_embd": 16, "n_layer": 2, "n_head": 2}, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}),
        ("Llama", CAUSAL, {"attention_dropout"}),
        ("Qwen2", CAUSAL, {"attention_dropout"}),
        ("T5", {"d_model": 16, "d_kv": 8, "num_layers": 2, "num_heads": 2, "d_ff": 32}, {"dropout_rate"}),
    ],
)
def test_dropout_is_known_by_many_names(
    tiny_model: Path, tmp_path: Path, kind: str, shape: dict[str, int], keys: set[str]
) -> None:
    """Of the encoder, and not of heads such as summary_first_dropout; the two views of a sentence differ."""
    import transformers

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), pad_token_id=0, **shape)
    getattr(transformers, f"{kind}EncoderModel" if kind == "T5" else f"{kind}Model")(config).save_pretrained(tmp_path)
    model = load(tmp_path, dropout=0.3, device="cpu").train()
    found = model[0].auto_model.config
    assert set(dropout_keys(found)) == keys
    assert all(getattr(found, key) == 0.3 for key in keys)
    assert getattr(found, "summary_first_dropout", 0.1) == 0.1
    first, second = (model(model.preprocess(sentences(3)))["sentence_embedding"] for _ in range(2))
    assert not torch.allclose(first, second, rtol=1e-2)


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
    monkeypatch.setattr(module, "check_hub", lambda _: None)
    load("bert-base-uncased", dropout=0.2, packed=False)
    (first, config), (second, model) = asked
    assert first == second == "bert-base-uncased"
    assert config["trust_remote_code"] is model["trust_remote_code"] is False
    assert model["model_kwargs"] == {"use_safetensors": True}
    assert model["config_kwargs"] == {"hidden_dropout_prob": 0.2}


@pytest.mark.parametrize("kind", ["MPNet", "DistilBert", "Electra"])
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


@pytest.mark.parametrize("value", [2, "many"])
def test_lengths_that_leave_no_word_are_refused(tiny_model: Path, tmp_path: Path, value: object) -> None:
    """Two tokens are the first and the last mark: every sentence had the same vector."""
    save(load(tiny_model, device="cpu"), tmp_path / "model")
    (tmp_path / "model" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": value}))
    with pytest.raises(UserError, match=rf"max_seq_length = {value!r}"):
        load(tmp_path / "model", device="cpu")


def test_a_tokenizer_without_a_limit_is_no_fault(tiny_model: Path, tmp_path: Path) -> None:
    """transformers writes 10^30 for it."""
    save(load(tiny_model, device="cpu"), tmp_path / "model")
    (tmp_path / "model" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 10**30}))
    assert load(tmp_path / "model", device="cpu").max_seq_length == 64


def test_a_model_of_one_vector_a_token_is_read_whole(tiny_model: Path, tmp_path: Path) -> None:
    table = StaticEmbedding(AutoTokenizer.from_pretrained(tiny_model), embedding_dim=8)
    plain, folder = SentenceTransformer(modules=[table], device="cpu"), tmp_path / "static"
    plain.save_pretrained(str(folder), create_model_card=False)
    model = load(folder, device="cpu")
    long = ["the king " * 2000, "a king"]
    with cut(model, 16):
        np.testing.assert_array_equal(model.encode(long), plain.encode(long))
    assert isinstance(load(folder, normalize=True, device="cpu")[-1], Normalize)
    for option, value in (("pooling", "mean"), ("max_length", 16)):
        with pytest.raises(UserError, match=f"{option} = {value!r}: .*: leave {option} out"):
            load(folder, **{option: value})
    with pytest.raises(UserError, match="has no dropout"):
        load(folder, dropout=0.1)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    with pytest.raises(UserError, match=r"model\.safetensors is broken"):
        load(folder)
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        load(folder)


@pytest.mark.parametrize("name", [name for name, (package, *_) in SHIPPED.items() if package == "isotrope"])
def test_a_model_in_the_package_is_whole(name: str) -> None:
    """Every folder in models/ is a model of the name isotrope/FOLDER: to ship another one, add its folder."""
    folder, model = Path(locate(name)), load(name, device="cpu")
    assert model.encode(["a red bird"]).shape == (1, model.get_embedding_dimension())
    about = metadata_load(folder / "README.md")
    assert about["license"] == "apache-2.0"
    assert {"library_name", "language", "tags"} <= about.keys()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20 * 2**20
    assert not [path.name for path in folder.rglob("*") if path.suffix in {".bin", ".pt", ".py", ".pkl"}]


def test_isotrope_small_follows_people_better_than_a_raw_model() -> None:
    """On the 330 pairs that people graded."""
    small, tiny = (
        evaluate_pairs(load(name, pooling, device="cpu"), similarity_pairs())["similarity"]["spearman"]["test"]
        for name, pooling in (("isotrope/small", None), ("isotrope/tiny", "first_last"))
    )
    assert small > 0.4
    assert small > tiny + 0.1
