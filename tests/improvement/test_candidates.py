"""The candidates: their names, their presets, and that each step can be saved."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.small_causal import build_decoder
from isotrope.encoder import load, save
from isotrope.errors import UserError
from isotrope.improvement.candidates import (
    RANKINGS,
    RAW_POOLINGS,
    Candidate,
    CandidateTrainer,
    Collection,
    MadeCandidate,
    join_names,
    raw_poolings,
    recipes_for,
    unique_names,
)
from isotrope.improvement.scores import KEEP
from isotrope.improvement.steps import POST_STEPS, WHITENINGS, linear_step
from isotrope.preset.preset import read_preset


def test_a_candidate_is_named_by_what_is_done() -> None:
    assert join_names(KEEP, "soft whitening") == "soft whitening"
    assert join_names("crops", "", "averaged") == "crops, averaged"
    assert join_names(KEEP) == KEEP
    assert dict(Candidate(name=KEEP).with_steps()) == {
        KEEP: "",
        **{name: name for name in POST_STEPS},
    }
    assert list(dict(Candidate(name="crops", steps=("soft whitening",)).with_steps())) == [
        "crops",
        "crops, soft whitening",
    ]


def test_the_first_token_of_a_decoder_is_no_candidate(tiny_model: Path, tmp_path: Path) -> None:
    """It has seen no other token."""
    assert raw_poolings(load(tiny_model, device="cpu")) == RAW_POOLINGS
    found = raw_poolings(load(build_decoder(tmp_path / "decoder", pooled=False), device="cpu"))
    assert found[0] == "lasttoken"
    assert "cls" not in found


@pytest.mark.parametrize("text", WHITENINGS.values())
def test_each_step_can_be_a_layer(text: str) -> None:
    linear_step(text)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("short", [True, False])
def test_each_recipe_is_a_preset_with_pairs(raw: bool, short: bool) -> None:
    found = recipes_for(raw, Collection(True, short, True))
    assert len({recipe.name for recipe in found}) == len(found) >= 3
    for recipe in found:
        if recipe.name == RANKINGS:  # it learns from lists, not from pairs
            continue
        preset = read_preset(recipe.preset, [*recipe.overrides, "pairs.rounds=2"])
        assert preset.pairs is not None
    names = {recipe.name for recipe in found}
    assert names - {recipe.name for recipe in recipes_for(raw, Collection(False, short, True))} == {
        "titles"
    }
    assert RANKINGS not in {
        recipe.name for recipe in recipes_for(raw, Collection(True, short, False))
    }
    assert ("neighbours" in names) is not short


def test_a_bare_model_is_trained_with_the_pooling_that_was_measured(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its presets have one of their own, which has other weights: they cannot be averaged."""
    told = list[str]()
    monkeypatch.setattr(
        "isotrope.improvement.candidates.train", lambda *_, overrides, **__: told.extend(overrides)
    )
    save(load(tiny_model), tmp_path / "whole")
    tried = {recipe.name: recipe for recipe in recipes_for(True, Collection(False, False, True))}
    for model, pooling, expected in (
        (tiny_model, None, ["mean"]),
        (tiny_model, "cls", ["cls"]),
        (tmp_path / "whole", None, []),
    ):
        told.clear()
        trainer = CandidateTrainer(str(model), SimpleNamespace(), 50, 100, 0, tmp_path, tried)
        trainer.train(Candidate(name="x", pooling=pooling, recipe="crops", pairs=128))
        assert [one.split("=")[1] for one in told if one.startswith("encoder.pooling=")] == expected


def test_documents_keep_their_vectors_after_a_map_or_an_encoder_of_queries() -> None:

    def keeps_documents(step: str, **encoder: Any) -> bool:
        return MadeCandidate(encoder=Candidate(name="x", **encoder), step=step).keeps_documents

    assert keeps_documents("query map")
    assert keeps_documents("", recipe=RANKINGS, pairs=64)
    assert not keeps_documents("soft whitening")
    assert not keeps_documents("query map", start="another")
    assert not keeps_documents("query map", pooling="cls")


def test_a_name_that_is_taken_gets_its_folder(tmp_path: Path) -> None:
    folders = [tmp_path / parent / "model" for parent in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir(parents=True)
    taken = {KEEP, "model"}
    assert list(unique_names(folders[:2], taken)) == ["a/model", "b/model"]
    with pytest.raises(UserError) as caught:
        unique_names(folders[:1], taken)
    assert caught.value.code == "model-given-twice"
