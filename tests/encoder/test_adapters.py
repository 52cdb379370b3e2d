"""LoRA adapters, as sentence-transformers saves them: the same vectors, in one plain model."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

import isotrope.encoder.adapters
from conftest import sentences
from isotrope import load
from isotrope.cli.main import app
from isotrope.encoder import save
from isotrope.encoder.checksum import files_checksum
from isotrope.errors import UserError
from small_runs import small_run

TEXTS = sentences(6)


@pytest.fixture
def adapter(tiny_model: Path, tmp_path: Path) -> Path:
    """A folder with an adapter of a copy of the small BERT, which stands beside it."""
    shutil.copytree(tiny_model, tmp_path / "base")
    model = SentenceTransformer(str(tmp_path / "base"), device="cpu")
    model.add_adapter(LoraConfig(target_modules=["query", "value"], r=4))
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora" in name:  # they are born as a change of nothing
            torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(str(tmp_path / "adapter"), create_model_card=False)
    return tmp_path / "adapter"


def test_an_adapter_becomes_part_of_its_model(adapter: Path, tmp_path: Path) -> None:
    expected = SentenceTransformer(str(adapter), device="cpu").encode(TEXTS)
    model = load(adapter, dropout=0.2, device="cpu")
    plain = load(tmp_path / "base", device="cpu")
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert np.allclose(model.encode(TEXTS), expected, atol=1e-5)
    assert not np.allclose(plain.encode(TEXTS), expected, atol=1e-2)
    assert model[0].auto_model.config.hidden_dropout_prob == 0.2
    assert all(weight.requires_grad for weight in model.parameters())
    save(model, tmp_path / "whole")
    shutil.rmtree(tmp_path / "base")
    whole = SentenceTransformer(str(tmp_path / "whole"), device="cpu")
    assert np.allclose(whole.encode(TEXTS), expected, atol=1e-5), "without its base"


def test_its_base_is_part_of_what_it_is(adapter: Path) -> None:
    before = files_checksum(str(adapter))
    config = adapter.parent / "base" / "config.json"
    config.write_text(config.read_text() + "\n")
    assert files_checksum(str(adapter)) != before


def run(*arguments: object) -> None:
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output


@pytest.mark.slow
def test_every_command_takes_an_adapter(adapter: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> None:
    vectors, whitened = tmp_path / "vectors.npy", tmp_path / "whitened"
    run("encode", adapter, corpus_file, "--output", vectors)
    first = corpus_file.read_text().splitlines()[:4]
    assert np.allclose(np.load(vectors)[:4], SentenceTransformer(str(adapter), device="cpu").encode(first), atol=1e-5)
    run("evaluate", adapter, "--pairs", pairs_file)
    run("whiten", adapter, corpus_file, "--output", whitened)
    assert SentenceTransformer(str(whitened), device="cpu").encode(first).shape[0] == 4
    trained = small_run(adapter, corpus_file, tmp_path / "run", sentences=64)
    assert not list(trained.folder.rglob("adapter_*"))


def test_a_missing_part_is_one_line(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(isotrope.encoder.adapters, "find_spec", lambda name: None)
        with pytest.raises(UserError, match=r"peft is not installed: pip install 'isotrope\[lora\]'"):
            load(adapter)
    config = adapter / "adapter_config.json"
    text = config.read_text()
    config.write_text(json.dumps({**json.loads(text), "base_model_name_or_path": "./nowhere"}))
    with pytest.raises(UserError, match=r"its base model \./nowhere does not exist: correct base_model_name_or_path"):
        load(adapter)
    config.write_text("{}")
    with pytest.raises(UserError, match=r"its base model is not named \(KeyError\): correct base_model_name_or_path"):
        load(adapter)
    config.write_text(json.dumps({**json.loads(text), "base_model_name_or_path": str(adapter)}))
    for read in (load, files_checksum):
        with pytest.raises(UserError, match="its base model is an adapter itself: correct base_model"):
            read(str(adapter))
    config.write_text(text)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(UserError, match="pickles are not opened"):
        load(adapter)


def test_a_name_that_the_hub_does_not_know_is_told_of_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise OSError("is not a valid model identifier")

    monkeypatch.setattr(sys.modules["isotrope.encoder.load"], "check_hub", lambda _: None)
    monkeypatch.setattr(isotrope.encoder.adapters, "find_adapter_config_file", unknown)
    with pytest.raises(UserError, match="neither a folder here nor a model that the hub gave"):
        load("nobody/nothing")
