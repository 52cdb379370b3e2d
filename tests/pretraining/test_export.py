"""The folder that is written at the end."""

import json

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from toy import curve, weights


def test_a_run_learns_and_leaves_a_model_that_loads_by_its_folder(finished):
    rows = curve(finished)
    assert rows[-1]["tokens"] == 1_280
    assert rows[-1]["held_out_loss"] < rows[0]["held_out_loss"] - 0.2
    folder = finished / "model"
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.config.hidden_size == 16
    hidden = model(**tokenizer(["the cat .", "a dog"], padding=True, return_tensors="pt")).last_hidden_state
    assert torch.isfinite(hidden).all()
    trained = weights(finished)
    for name, tensor in stored.items():
        assert torch.equal(tensor, trained[f"model.{name}"].half())
    card = (folder / "README.md").read_text()
    assert "1,280" in card
    shown = float(card.split("| held-out loss | ")[1].split(" nats")[0])
    assert abs(shown - rows[-1]["held_out_loss"]) < 1e-3


def test_the_folder_is_true_on_every_machine(finished):
    settings = json.loads((finished / "model" / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert not {"is_local", "local_files_only"} & settings.keys()
    assert "[MASK]" in AutoTokenizer.from_pretrained(finished / "model").get_vocab()
