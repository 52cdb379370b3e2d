"""Decoders as encoders: the last real token, on whichever side the padding is; tokens that see
ahead.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

import isotrope
from helpers.refusals import refused
from helpers.small_causal import build_decoder
from helpers.small_runs import small_run
from helpers.words import sentences
from isotrope import load
from isotrope.cli.main import app
from isotrope.encoder import save
from isotrope.encoder.adapters import adapter_weights, add_adapter, merge_adapter
from isotrope.encoder.export import NEEDS_5
from isotrope.encoder.load import sees_ahead

TEXTS = sentences(8)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Padded on the left; the last token's state."""
    return build_decoder(tmp_path_factory.mktemp("qwen"))


def one_by_one(model: SentenceTransformer) -> np.ndarray:
    return np.concatenate([model.encode([text]) for text in TEXTS])


def test_the_last_real_token_is_taken_whatever_the_side_of_the_padding(
    qwen: Path, tmp_path: Path
) -> None:
    right, bare = (
        build_decoder(tmp_path / "right", "right"),
        build_decoder(tmp_path / "bare", pooled=False),
    )
    model = load(qwen, device="cpu")
    vectors = model.encode(TEXTS)
    assert vectors.std() > 0.1
    for other in (
        load(right, device="cpu"),
        load(bare, "lasttoken", device="cpu"),
        load(qwen, "lasttoken"),
    ):
        np.testing.assert_allclose(other.encode(TEXTS), vectors, atol=1e-5)
    np.testing.assert_allclose(one_by_one(model), vectors, atol=1e-5)
    config = json.loads((bare / "config.json").read_text()) | {
        "architectures": ["Qwen3ForCausalLM"]
    }
    assert load(bare)[1].pooling_mode == "mean"
    (bare / "config.json").write_text(json.dumps(config))
    assert load(bare)[1].pooling_mode == "lasttoken"
    save(model, tmp_path / "saved")
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    assert again.prompts == model.prompts
    np.testing.assert_array_equal(
        load(qwen, prompt_name="query").encode(TEXTS), model.encode_query(TEXTS)
    )


def seeing_ahead(model: Path, folder: Path) -> Path:
    """The same decoder, whose configuration lets its tokens see those after them."""
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"is_causal": False}))
    return folder


def test_the_first_token_of_a_decoder_is_no_vector_of_a_text(qwen: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("\n".join(sentences(32)))
    with refused("blind-pooling"):
        small_run(
            qwen,
            tmp_path / "few.txt",
            tmp_path / "run",
            "encoder.pooling=cls",
            max_texts=32,
            dev="none",
            labels="none",
        )


def test_tokens_that_see_ahead_do_so_wherever_the_model_loads(qwen: Path, tmp_path: Path) -> None:
    """Also in a batch without padding, where a kernel gets no mask."""
    plain, model = (
        load(qwen, "mean", device="cpu"),
        load(seeing_ahead(qwen, tmp_path / "ahead"), "mean", device="cpu"),
    )
    assert not sees_ahead(plain[0].auto_model)
    assert sees_ahead(model[0].auto_model)
    vectors = model.encode(TEXTS)
    assert not np.allclose(plain.encode(TEXTS), vectors, atol=1e-2)
    np.testing.assert_allclose(one_by_one(model), vectors, atol=1e-5)
    save(model, tmp_path / "saved")
    np.testing.assert_array_equal(
        SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS), vectors
    )
    words = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert words["tokenizer_class"] == NEEDS_5, (
        "version 4 of transformers would hide the tokens ahead"
    )


def test_an_option_lets_the_tokens_see_ahead(qwen: Path, tmp_path: Path) -> None:
    by_option = load(qwen, "mean", device="cpu", bidirectional=True)
    by_config = load(seeing_ahead(qwen, tmp_path / "ahead"), "mean", device="cpu")
    np.testing.assert_array_equal(by_option.encode(TEXTS), by_config.encode(TEXTS))
    with refused("bidirectional-has-no-effect"):
        load(tmp_path / "ahead", bidirectional=True)


def test_a_tokenizer_without_padding_pads_with_its_end(qwen: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(qwen, tmp_path / "bare")
    path = bare / "tokenizer_config.json"
    words = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in words.items() if key != "pad_token"}))
    model = load(bare, device="cpu")
    np.testing.assert_array_equal(model.encode(TEXTS), load(qwen, device="cpu").encode(TEXTS))
    save(model, tmp_path / "saved")
    assert SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS).shape == (8, 32)
    path.write_text(
        json.dumps(
            {key: value for key, value in words.items() if key not in ("pad_token", "eos_token")}
        )
    )
    with refused("no-padding-token"):
        load(bare)


def test_a_preset_trains_a_decoder_that_sees_ahead(qwen: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("\n".join(sentences(32)))
    chosen = {"max_texts": 32, "dev": "none", "labels": "none"}
    ahead = seeing_ahead(qwen, tmp_path / "ahead")
    run = small_run(ahead, tmp_path / "few.txt", tmp_path / "run", **chosen)
    assert sees_ahead(load(run.folder / "model")[0].auto_model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["Qwen2", "Llama", "Mistral", "Gemma", "Gemma2", "Gemma3Text", "OPT", "GPTNeoX"]
)
def test_decoders_of_many_kinds(kind: str, tmp_path: Path) -> None:
    """Some of them with a window that slides; each with an adapter that is merged."""
    shape: dict[str, Any] = (
        {"sliding_window": 6} if kind in ("Mistral", "Gemma2", "Gemma3Text") else {}
    )
    own = {
        "OPT": {"word_embed_proj_dim": 32, "ffn_dim": 64},
        "Gemma3Text": {"query_pre_attn_scalar": 8},
    }
    shape |= own.get(kind, {})
    left, right = (
        build_decoder(tmp_path / side, side, kind=kind, **shape) for side in ("left", "right")
    )
    both_ways = [
        seeing_ahead(folder, tmp_path / f"ahead-{folder.name}") for folder in (left, right)
    ]
    for folders in ([left, right], both_ways):
        model, other = (load(folder, device="cpu") for folder in folders)
        vectors = model.encode(TEXTS)
        np.testing.assert_allclose(one_by_one(model), vectors, atol=1e-5)
        np.testing.assert_allclose(other.encode(TEXTS), vectors, atol=1e-5)
        save(model, tmp_path / "saved")
        again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    add_adapter(model, 4, 8, 0.0, ["all-linear"])
    for weight in adapter_weights(model).values():
        weight.data.normal_(0, 0.1)
    adapted = model.encode(TEXTS)
    merge_adapter(model)
    np.testing.assert_allclose(model.encode(TEXTS), adapted, atol=1e-4)
    assert not np.allclose(adapted, vectors, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_command_takes_a_decoder(
    side: str, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """Train (SimCSE, then RankCSE with token steps and gradient caching), encode, evaluate, whiten,
    export, improve.
    """
    model, pooling = build_decoder(tmp_path / "qwen", side), "encoder.pooling=lasttoken"
    first = small_run(model, corpus_file, tmp_path / "first", pooling, dev=str(pairs_file))
    steps = [
        "tokens.shuffle.on=[1]",
        "tokens.cutoff.on=[1]",
        "tokens.repeat.on=[0]",
        "train.mini_batch_size=8",
    ]
    second = small_run(
        first.folder / "model",
        corpus_file,
        tmp_path / "second",
        pooling,
        *steps,
        preset="rankcse-listnet",
        teachers={"simcse": [str(first.folder / "model")]},
    )
    vectors = tmp_path / "vectors.npy"
    for command in (
        ["encode", second.folder / "model", corpus_file, "--output", vectors],
        [
            "evaluate",
            second.folder / "model",
            first.folder / "model",
            "--labels",
            pairs_file,
            "--pooling",
            "lasttoken",
        ],
        ["whiten", second.folder / "model", corpus_file, "--output", tmp_path / "whitened"],
        ["export", second.folder / "model", "--output", tmp_path / "onnx"],
    ):
        outcome = CliRunner().invoke(app, [str(word) for word in command], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
    plain = SentenceTransformer(str(second.folder / "model"), device="cpu")
    lines = corpus_file.read_text().splitlines()
    np.testing.assert_allclose(np.load(vectors), plain.encode(lines), atol=1e-5)
    assert plain.tokenizer.padding_side == side
    texts = sentences(1600)
    documents = tmp_path / "documents.jsonl"
    rows = [
        {"title": texts[8 * i], "text": ". ".join(texts[8 * i : 8 * i + 8])} for i in range(200)
    ]
    documents.write_text("\n".join(map(json.dumps, rows)))
    found = isotrope.improve(str(model), [documents], output=tmp_path / "better", minutes=0.3)
    assert found.choice in found.record["table"]
    assert torch.from_numpy(found.model.encode(TEXTS)).isfinite().all()
