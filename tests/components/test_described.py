"""The card that sentence-transformers writes for a user's own training script."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import metadata_load
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerModelCardData,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from conftest import sentences
from datasets import Dataset
from isotrope import Objective, ObjectiveState, component, load
from isotrope.components.described import ObjectiveCardData, introduce


def objective(model: SentenceTransformer, dims: list[int] | None = None) -> Objective:
    return Objective(
        model,
        {"contrast": component("terms", "infonce", temperature=0.07)},
        tokens=[(component("tokens", "shuffle"), [1])],
        dims=dims or [],
    )


@pytest.fixture(scope="module")
def cards(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The card of a checkpoint and that of the model, by the real trainer."""
    folder = tmp_path_factory.mktemp("script")
    model = SentenceTransformer(str(tiny_model), device="cpu")
    loss = objective(model)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), max_steps=2, save_steps=2, per_device_train_batch_size=8, report_to="none",
        disable_tqdm=True,
    )  # fmt: skip
    SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict({"text": sentences(64)}), loss=loss,
        callbacks=[ObjectiveState(loss)],
    ).train()  # fmt: skip
    model.save_pretrained(str(folder / "model"))
    return tuple((folder / name / "README.md").read_text() for name in ("checkpoint-2", "model"))  # type: ignore[return-value]


@pytest.mark.parametrize("which", [0, 1])
def test_a_users_own_script_has_a_good_card(cards: tuple[str, str], tiny_model: Path, which: int) -> None:
    for words in (f"# {tiny_model.name}, trained with isotrope", "- isotrope", "- loss:Objective",
                  "(checksum ", "Size: 64 training samples", '"temperature": 0.07', '"kind": "Shuffle"',
                  "gao2021simcse", "yan2021consert", "@software{isotrope,"):  # fmt: skip
        assert words in cards[which], words
    assert "loss:method" not in cards[which]


@pytest.mark.parametrize("which", [0, 1])
def test_it_holds_no_text_of_the_data(cards: tuple[str, str], which: int) -> None:
    assert not [sentence for sentence in sentences(64) if sentence in cards[which]]
    assert "widget" not in cards[which]


def test_the_shipped_model_gives_its_name_and_licence() -> None:
    model = load("isotrope/tiny", dropout=0.1, device="cpu")
    loss = objective(model, dims=[64, 256])
    data = model.model_card_data
    assert (data.base_model, data.license, data.language) == ("isotrope/tiny", "apache-2.0", "en")
    assert "kusupati2022matryoshka" in loss.citation
    assert loss.get_config_dict()["dims"] == [64, 256]


def test_what_a_user_wrote_stays(tiny_model: Path) -> None:
    theirs = SentenceTransformerModelCardData(license="mit", model_name="Mine", tags=["x"])
    model = SentenceTransformer(str(tiny_model), device="cpu", model_card_data=theirs)
    introduce(model)
    data = model.model_card_data
    assert isinstance(data, ObjectiveCardData)
    assert (data.license, data.model_name, data.tags[0]) == ("mit", "Mine", "x")
    introduce(model)
    assert model.model_card_data is data


def test_a_licence_that_the_hub_does_not_list_keeps_its_name(tiny_model: Path, tmp_path: Path) -> None:
    base = shutil.copytree(tiny_model, tmp_path / "base")
    about = {"license": "other", "license_name": "mine", "license_link": "https://x.y"}
    (base / "README.md").write_text("---\n" + "".join(f"{key}: {value}\n" for key, value in about.items()) + "---\n")
    model = introduce(SentenceTransformer(str(base), device="cpu"))
    model.save_pretrained(str(tmp_path / "new"), create_model_card=True)
    found = metadata_load(tmp_path / "new" / "README.md")
    assert found is not None
    assert {key: found[key] for key in about} == about
