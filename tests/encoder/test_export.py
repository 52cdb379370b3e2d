"""A saved folder is in the words of version 5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.export import MODES, NEEDS_5, for_transformers_4
from isotrope.encoder.locate import locate
from isotrope.encoder.pooling import LAYERS

TEXT = sentences(7)


@pytest.mark.parametrize("pooling", list(LAYERS))
def test_saved_settings_are_in_the_words_of_version_5(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    """Version 5.1.2 was run once on these folders and gave equal embeddings; its key names are pinned here."""
    save(load(tiny_model, pooling, device="cpu"), tmp_path / "saved")
    known = {
        "Transformer": {"max_seq_length", "do_lower_case"},
        "Pooling": {"word_embedding_dimension", "include_prompt", *MODES.values()},
        "WordWeights": {"vocab", "word_weights", "unknown_word_weight"},
        "WeightedLayerPooling": {"word_embedding_dimension", "layer_start", "num_hidden_layers"},
        "Dense": {"in_features", "out_features", "bias", "activation_function"},
    }
    names = {"module_input_name", "module_output_name"}  # since 5.4, where an average of layers needs them
    for module in json.loads((tmp_path / "saved" / "modules.json").read_text()):
        kind = module["type"].rsplit(".", 1)[-1]
        name = "sentence_bert_config.json" if kind == "Transformer" else "config.json"
        settings = json.loads((tmp_path / "saved" / module["path"] / name).read_text())
        assert set(settings) - (names if LAYERS[pooling] else set()) == known[kind]


@pytest.mark.parametrize("folder", ["saved", "shipped"])
def test_modernbert_keeps_the_rotary_settings_that_version_4_reads(tmp_path: Path, folder: str) -> None:
    if folder == "shipped":
        saved = Path(locate("isotrope/tiny"))
    else:
        save(load("isotrope/tiny", "cls", device="cpu"), saved := tmp_path / "saved")
    config = json.loads((saved / "config.json").read_text())
    assert config["global_rope_theta"] == config["local_rope_theta"] == 10_000
    assert config["global_attn_every_n_layers"] == 1


FULL, SLIDING = "full_attention", "sliding_attention"
TURNS = {FULL: {"rope_type": "default", "rope_theta": 8e4}, SLIDING: {"rope_type": "default", "rope_theta": 1e4}}


def modernbert(kinds: list[str], **rope: dict[str, object]) -> dict[str, object]:
    return {"model_type": "modernbert", "layer_types": kinds, "rope_parameters": TURNS | rope}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert"}, {}),
        (
            modernbert([FULL, SLIDING, SLIDING, FULL]),
            {"global_attn_every_n_layers": 3, "global_rope_theta": 8e4, "local_rope_theta": 1e4},
        ),
        (
            modernbert([FULL, SLIDING]),
            {"global_attn_every_n_layers": 2, "global_rope_theta": 8e4, "local_rope_theta": 1e4},
        ),
        (modernbert([SLIDING, FULL]), None),
        (modernbert([FULL, FULL], full_attention={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}), None),
        (
            {"model_type": "qwen3", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
            {"rope_theta": 1e6, "rope_scaling": None},
        ),
        (
            {"model_type": "qwen3", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}},
            {"rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        ),
        ({"model_type": "gemma3_text", "rope_parameters": TURNS}, None),
    ],
)
def test_rotary_settings_in_the_words_of_version_4(config: dict[str, Any], expected: dict[str, Any] | None) -> None:
    assert for_transformers_4(config) == expected


def test_what_version_4_cannot_compute_it_cannot_load(tiny_model: Path, tmp_path: Path) -> None:
    """Version 4 fails with "Tokenizer class NeedsTransformers5 does not exist"; this version does not look at it."""
    encoder = load("isotrope/tiny", "mean", device="cpu")
    encoder[0].auto_model.config.layer_types = [SLIDING, FULL, FULL, FULL]
    save(encoder, tmp_path / "saved")
    settings = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == NEEDS_5
    rhythm = json.loads((tmp_path / "saved" / "config.json").read_text())["global_attn_every_n_layers"]
    with pytest.raises(TypeError):  # what 5.0 does, which takes any tokenizer class
        _ = 1 % rhythm
    again = load(tmp_path / "saved", device="cpu")
    assert again.tokenizer(TEXT) == encoder.tokenizer(TEXT)
    again[0].auto_model.config.layer_types = [FULL] * 4
    save(again, tmp_path / "again")
    settings = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
