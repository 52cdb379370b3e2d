"""Dropout by its many names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from conftest import sentences
from isotrope import load
from isotrope.encoder.dropout_keys import dropout_keys

CAUSAL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "num_key_value_heads": 2,
}


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
