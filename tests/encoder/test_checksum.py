"""Checksums of models: whatever changes an embedding changes them, nothing else does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope import load
from isotrope.encoder.checksum import files_checksum, model_checksum
from isotrope.errors import UserError


def encoder(folder: Path, pooling: str = "mean") -> SentenceTransformer:
    return load(folder, pooling, device="cpu")


def one_weight(model: SentenceTransformer) -> None:
    next(model.parameters()).data[3, 3] += 1e-6


def two_rows_exchanged(model: SentenceTransformer) -> None:
    """The same numbers at other places."""
    table = model[0].auto_model.get_input_embeddings().weight.data
    table[[7, 8]] = table[[8, 7]]


CHANGES: dict[str, Callable[[SentenceTransformer], object]] = {
    "one weight": one_weight,
    "two rows exchanged": two_rows_exchanged,
    "half precision": lambda model: model.half(),
    "the length": lambda model: setattr(model, "max_seq_length", 9),
    "a prompt": lambda model: model.prompts.update(query="the river: "),
    "the default prompt": lambda model: setattr(model, "default_prompt_name", "query"),
    "the dimensions": lambda model: setattr(model, "truncate_dim", 8),
    "a setting": lambda model: setattr(model[0].auto_model.config, "hidden_act", "relu"),
    "a word": lambda model: model.tokenizer.add_tokens(["archipelago"]),
    "a module": lambda model: model.append(torch.nn.Identity()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_an_embedding_changes_it(tiny_model: Path, change: str) -> None:
    model = encoder(tiny_model)
    before = model_checksum(model)
    CHANGES[change](model)
    assert model_checksum(model) != before


def test_poolings_and_what_is_added_are_told_apart(tiny_model: Path) -> None:
    mean, cls = encoder(tiny_model), encoder(tiny_model, "cls")
    found = [model_checksum(mean), model_checksum(cls), model_checksum(mean, True), model_checksum(mean, False)]
    assert len(set(found)) == 4


def test_the_same_bytes_of_another_name_kind_or_shape_are_others(tiny_model: Path) -> None:
    """Buffers, which no description of the modules shows."""
    found = []
    for name, values in (
        ("one", torch.zeros(4, dtype=torch.int8)), ("other", torch.zeros(4, dtype=torch.int8)),
        ("one", torch.zeros(1)), ("one", torch.zeros(2, 2, dtype=torch.int8)),
    ):  # fmt: skip
        model = encoder(tiny_model)
        model.register_buffer(name, values)
        found.append(model_checksum(model))
    assert len(set(found)) == 4


def test_place_use_and_copy_do_not_count(tiny_model: Path, tmp_path: Path) -> None:
    model = encoder(tiny_model)
    before = model_checksum(model)
    model.encode(sentences(9), batch_size=4)
    model.tokenizer(["the river"], truncation=True, max_length=5, padding="max_length")
    assert model_checksum(model) == before, "what a batch has set"
    assert model_checksum(deepcopy(model)) == before
    assert model_checksum(encoder(Path(shutil.copytree(tiny_model, tmp_path / "elsewhere")))) == before


def test_a_files_contents_and_name_count_and_its_place_does_not(tiny_model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    before = files_checksum(str(folder))
    assert before == files_checksum(str(tiny_model))
    (folder / "report.html").write_text("no part of the model")
    assert files_checksum(str(folder)) == before
    weights = folder / "model.safetensors"
    contents = bytearray(weights.read_bytes())
    contents[-1] ^= 1
    weights.write_bytes(contents)
    changed = files_checksum(str(folder))
    (folder / "tokenizer.json").rename(folder / "other.json")
    assert len({before, changed, files_checksum(str(folder))}) == 3


def test_two_files_do_not_run_into_each_other(tmp_path: Path) -> None:
    """The same bytes in the same order, another file's."""
    found = []
    for name, contents in {"one": ("ab", "c"), "other": ("a", "bc")}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        for file, text in zip(("a.txt", "b.txt"), contents, strict=True):
            (tmp_path / name / file).write_text(text)
        found.append(files_checksum(str(tmp_path / name)))
    assert found[0] != found[1]


def test_a_hub_name_stays_and_a_shipped_model_is_its_files(tmp_path: Path) -> None:
    assert files_checksum("bert-base-uncased") == "bert-base-uncased"
    assert len(files_checksum("isotrope/tiny")) == 32
    with pytest.raises(UserError, match="gone"):
        files_checksum(str(tmp_path / "gone"))
