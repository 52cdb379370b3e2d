"""Loading an encoder: what it keeps, dropout, lengths, other architectures; what is broken is one
line.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import metadata_load
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoTokenizer

from helpers.refusals import refused
from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.length import limit_length
from isotrope.encoder.load import dropout_keys
from isotrope.encoder.locate import SHIPPED, locate
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.suite import run

TEXT = sentences(7)
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
CAUSAL = SMALL | {"num_key_value_heads": 2}
BERT = {"hidden_dropout_prob", "attention_probs_dropout_prob"}
# kind -> its sizes, and what it calls its dropout
OTHERS: dict[str, tuple[dict[str, int], set[str]]] = {
    "GPT2": ({"n_embd": 16, "n_layer": 2, "n_head": 2}, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}),
    "Llama": (CAUSAL, {"attention_dropout"}),
    "Qwen2": (CAUSAL, {"attention_dropout"}),
    "T5": ({"d_model": 16, "d_kv": 8, "num_layers": 2, "num_heads": 2, "d_ff": 32}, {"dropout_rate"}),
    "MPNet": (SMALL, BERT),
    "Electra": (SMALL, BERT),
    "DistilBert": ({"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, {"dropout", "attention_dropout"}),
    "ModernBert": (SMALL, {"attention_dropout", "embedding_dropout", "mlp_dropout"}),
}  # fmt: skip


def random_encoder(kind: str, words: Path, folder: Path, **shape: int) -> Path:
    """Random weights, and another model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(words)
    tokenizer.save_pretrained(folder)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), pad_token_id=0, **shape
    )
    getattr(transformers, f"{kind}EncoderModel" if kind == "T5" else f"{kind}Model")(
        config
    ).save_pretrained(folder)
    return folder


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
    for options in ({"pooling": "mean"}, {"normalize": False}):
        asked = load(tmp_path / "own", device="cpu", **options)
        assert asked.default_prompt_name == "query"
        assert not np.allclose(np.linalg.norm(asked.encode(TEXT), axis=1), 1, atol=1e-3)


def test_dropout_is_set_everywhere_and_saved(tiny_model: Path, tmp_path: Path) -> None:
    encoder = load(tiny_model, dropout=0.37, device="cpu")
    assert {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)} == {
        0.37
    }
    save(encoder, tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.37


@pytest.mark.parametrize("kind", OTHERS)
def test_other_architectures_load_pool_and_drop(
    tiny_model: Path, tmp_path: Path, kind: str
) -> None:
    """Dropout is the encoder's, not that of heads such as summary_first_dropout; two views of a
    sentence differ.
    """
    shape, keys = OTHERS[kind]
    folder = random_encoder(kind, tiny_model, tmp_path / "model", **shape)
    for pooling in (
        ("mean", "cls", "first_last")
        if "Bert" in kind or kind in ("MPNet", "Electra")
        else ("mean",)
    ):
        model = load(folder, pooling, dropout=0.3, device="cpu")
        found = model[0].auto_model.config
        assert set(dropout_keys(found)) == keys
        assert all(getattr(found, key) == 0.3 for key in keys)
        assert getattr(found, "summary_first_dropout", 0.1) == 0.1
        save(model, tmp_path / "saved")
        assert np.array_equal(
            load(tmp_path / "saved", device="cpu").encode(TEXT), model.encode(TEXT)
        )
        features = model.train().preprocess(TEXT)
        first, second = (model(dict(features))["sentence_embedding"] for _ in range(2))
        assert first.shape == (7, 16)
        assert not torch.allclose(first, second, rtol=1e-2)


@pytest.mark.parametrize(("kind", "longest"), [("Bert", 40), ("Roberta", 39), ("MPNet", 38)])
def test_a_sentence_is_cut_where_positions_end(
    tiny_model: Path, tmp_path: Path, kind: str, longest: int
) -> None:
    """The fixture's tokenizer promises 64 tokens; RoBERTa's positions begin behind the padding's
    index.
    """
    random_encoder(kind, tiny_model, tmp_path, max_position_embeddings=40, **SMALL)
    encoder = load(tmp_path, "mean", device="cpu")
    assert encoder.max_seq_length == longest
    assert np.isfinite(encoder.encode(["a b c " * 50])).all()
    with refused("max-length-does-not-fit", longest):
        load(tmp_path, "mean", max_length=longest + 1)


def test_a_length_leaves_room_for_a_word(tiny_model: Path, tmp_path: Path) -> None:
    """Two tokens are the first and the last mark: every sentence had the same vector."""
    for length in (1, 1000):
        with refused("max-length-does-not-fit", length):
            load(tiny_model, max_length=length)
    save(load(tiny_model, device="cpu"), tmp_path / "model")
    settings = tmp_path / "model" / "sentence_bert_config.json"
    settings.write_text(json.dumps({"max_seq_length": 10**30}))  # transformers' word for no limit
    assert load(tmp_path / "model", device="cpu").max_seq_length == 64
    for wrong in ("abc", 2, -5, True):
        settings.write_text(json.dumps({"max_seq_length": wrong}))
        with refused("impossible-length", wrong):
            load(tmp_path / "model")


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


@pytest.mark.parametrize(
    "options", [{}, {"prompt": "song of "}, {"max_length": 5}, {"task": "query"}]
)
def test_features_made_by_numpy_are_the_models_own(
    prompted_model: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit. No list is flattened, which is what takes the time; that for one task is left to
    the library.
    """
    plain, model = (
        SentenceTransformer(str(prompted_model), device="cpu"),
        load(prompted_model, device="cpu"),
    )
    for texts in ([*TEXT, "", "river " * 300, "naïve café 東京"], TEXT[:1], [""], []):
        expected = plain.preprocess(texts, **options)
        with monkeypatch.context() as patch:
            if "task" not in options:
                patch.delattr("transformers.tokenization_utils_base.flatten")
            found = model.preprocess(texts, **options)
        assert list(found) == list(expected)
        assert all(same(found[key], expected[key]) for key in expected)


def test_a_model_of_one_vector_a_token_is_read_whole(tiny_model: Path, tmp_path: Path) -> None:
    table = StaticEmbedding(AutoTokenizer.from_pretrained(tiny_model), embedding_dim=8)
    plain, folder = SentenceTransformer(modules=[table], device="cpu"), tmp_path / "static"
    plain.save_pretrained(str(folder), create_model_card=False)
    model = load(folder, device="cpu")
    long = ["the king " * 2000, "a king"]
    with limit_length(model, 16):
        np.testing.assert_array_equal(model.encode(long), plain.encode(long))
    assert isinstance(load(folder, normalize=True, device="cpu")[-1], Normalize)
    for option in ({"pooling": "mean"}, {"max_length": 16}):
        with refused("static-has-no-pooling"):
            load(folder, **option)
    with refused("no-dropout"):
        load(folder, dropout=0.1)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    with refused("model-not-loadable"):
        load(folder)
    weights.rename(folder / "pytorch_model.bin")
    with refused("no-safetensors"):
        load(folder)


@pytest.mark.parametrize(
    "name", [name for name, (package, *_) in SHIPPED.items() if package == "isotrope"]
)
def test_a_model_in_the_package_is_whole(name: str) -> None:
    """Every folder in models/ is a model of the name isotrope/FOLDER: to ship another one, add its
    folder.
    """
    folder, model = Path(locate(name)), load(name, device="cpu")
    assert model.encode(["a red bird"]).shape == (1, model.get_embedding_dimension())
    about = metadata_load(folder / "README.md")
    assert about["license"] == "apache-2.0"
    assert {"library_name", "language", "tags"} <= about.keys()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20 * 2**20
    assert not [
        path.name for path in folder.rglob("*") if path.suffix in {".bin", ".pt", ".py", ".pkl"}
    ]


def test_isotrope_small_follows_people_better_than_a_raw_model() -> None:
    """On the 330 pairs that people graded."""
    small, tiny = (
        run(load(name, pooling, device="cpu"), "sts", similarity_pairs())["similarity"]["spearman"][
            "test"
        ]
        for name, pooling in (("isotrope/small", None), ("isotrope/tiny", "first_last"))
    )
    assert small > max(0.4, tiny + 0.1)


def rewrite(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> Path:
    """The model's weights, changed in their file."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("bare", "gone", "message"),
    [
        (True, "layer.0.output.dense.weight", r"1 of .*\(encoder.layer.0.output.dense.weight\)"),
        (True, "word_embeddings", r"1 of .*\(embeddings.word_embeddings.weight\)"),
        (False, "layer.1.", r"16 of .*layer\.1\.[^,]+, [^,]+, [^,]+, …\)"),
    ],
)
def test_weights_that_lack_tensors_are_refused(
    tiny_model: Path, tmp_path: Path, bare: bool, gone: str, message: str
) -> None:
    """transformers would make them up at random; a bare encoder's file and a sentence-transformers
    model's.
    """
    if bare:
        shutil.copytree(tiny_model, tmp_path / "model")
    else:
        save(load(tiny_model, "cls", device="cpu"), tmp_path / "model")
    folder = rewrite(
        tmp_path / "model", lambda weights: {k: v for k, v in weights.items() if gone not in k}
    )
    with pytest.raises(
        UserError, match=rf"model: model\.safetensors lacks {message}: copy or download"
    ):
        load(folder, device="cpu")


def test_a_raw_checkpoint_lacks_its_pooler_and_has_other_heads(
    tiny_model: Path, tmp_path: Path
) -> None:
    """As published ones do, with BERT's old names; only the pooling that reads the pooler misses
    it.
    """
    shutil.copytree(tiny_model, tmp_path / "model")

    def raw(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        kept = {
            f"bert.{name}": value
            for name, value in weights.items()
            if not name.startswith("pooler.")
        }
        old = {
            k.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): v
            for k, v in kept.items()
        }
        return old | {
            "cls.predictions.bias": torch.zeros(3),
            "cls.seq_relationship.bias": torch.zeros(2),
        }

    folder = rewrite(tmp_path / "model", raw)
    expected = load(tiny_model, "mean", device="cpu").encode(TEXT)
    assert np.allclose(load(folder, "mean", device="cpu").encode(TEXT), expected, atol=1e-6)
    with pytest.raises(
        UserError,
        match=r"takes the model's own head, .* has none: .* or 'new_head' for a random one",
    ):
        load(folder, "cls_head", device="cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(
    tiny_model: Path, tmp_path: Path, value: float
) -> None:
    """Though no text of today holds the word that they belong to."""

    def spoil(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        weights["embeddings.word_embeddings.weight"][-1, 0] = value
        return weights

    folder = rewrite(Path(shutil.copytree(tiny_model, tmp_path / "model")), spoil)
    with refused("weights-not-finite", "word_embeddings.weight"):
        load(folder)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("{}", "cannot be loaded .*Unrecognized model"),
        ({"hidden_size": "x"}, "expected int, got str .*: mend its files"),
        ({"hidden_size": 64}, "cannot be loaded .*size"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "ImportError: .*: .* install what it asks for",
        ),
    ],
)
def test_a_configuration_that_cannot_be_followed_is_one_line(
    tiny_model: Path, tmp_path: Path, asked: str | dict[str, object], problem: str
) -> None:
    path = Path(shutil.copytree(tiny_model, tmp_path / "model")) / "config.json"
    path.write_text(
        asked if isinstance(asked, str) else json.dumps(json.loads(path.read_text()) | asked)
    )
    with pytest.raises(UserError, match=problem):
        load(path.parent, device="cpu")
