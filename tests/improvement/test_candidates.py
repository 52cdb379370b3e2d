"""The candidates: their names, their presets, and that each step can be saved."""

from contextlib import nullcontext
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
    Maker,
    Trial,
    check_plan,
    joined,
    raw_poolings,
    recipes,
)
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.steps import POST_STEPS, WHITENINGS, linear_step
from isotrope.preset.preset import read_preset


def test_a_candidate_is_named_by_what_is_done() -> None:
    assert joined(AS_IS, "soft whitening") == "soft whitening"
    assert joined("crops", "", "averaged") == "crops, averaged"
    assert joined(AS_IS) == AS_IS
    assert dict(Trial(AS_IS).candidates()) == {AS_IS: "", **{name: name for name in POST_STEPS}}
    assert list(dict(Trial("crops", steps=("soft whitening",)).candidates())) == [
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
    found = recipes(raw, titled=True, short=short)
    assert len({recipe.name for recipe in found}) == len(found) >= 3
    for recipe in found:
        if recipe.name == RANKINGS:  # it learns from lists, not from pairs
            continue
        preset = read_preset(recipe.preset, [*recipe.overrides, "pairs.rounds=2"])
        assert preset.pairs is not None
    names = {recipe.name for recipe in found}
    assert names - {recipe.name for recipe in recipes(raw, titled=False, short=short)} == {"titles"}
    assert RANKINGS not in {
        recipe.name for recipe in recipes(raw, titled=True, short=short, searched=False)
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
    tried = {recipe.name: recipe for recipe in recipes(raw=True, titled=False)}
    for model, pooling, expected in (
        (tiny_model, None, ["mean"]),
        (tiny_model, "cls", ["cls"]),
        (tmp_path / "whole", None, []),
    ):
        told.clear()
        maker = Maker(str(model), SimpleNamespace(), 50, 100, 0, tmp_path, tried)
        maker.work(Trial("crops, 128 pairs", pooling, "crops", 128))
        assert [one.split("=")[1] for one in told if one.startswith("encoder.pooling=")] == expected


PLAN: dict[str, Any] = {"teachers": ["large"], "questions": 9, "trials": [{"name": "keep"}]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"teachers": ["other"]}, r"the plan has the teacher other \(--teacher\): repeat it with"),
        ({"trials": [{"name": "x", "start": "x"}]}, r"the plan has the model x \(--or\)"),
        (
            {"trials": [{"name": "x", "recipe": "crops"}]},
            "the plan has the training crops, which these documents",
        ),
    ],
)
def test_a_plan_of_another_race_is_refused(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    makers = {"": Maker("model", SimpleNamespace(), 50, 100, 0, tmp_path)}
    with pytest.raises(UserError, match=said) if said else nullcontext():
        check_plan({**PLAN, **changed}, makers, ["large"], asks=True)
    with pytest.raises(UserError, match=r"the plan has the query model \(--query-model\)"):
        check_plan(PLAN, makers, ["large"])
