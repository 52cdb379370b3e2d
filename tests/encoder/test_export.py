"""A saved folder is in the words of version 5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.export import MODES
from isotrope.encoder.pooling import LAYERS

TEXT = sentences(7)


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
