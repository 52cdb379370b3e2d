"""Presets for a person to read: every value with its source."""

from __future__ import annotations

import pytest

from isotrope.preset.preset import preset_names
from isotrope.preset.sources import annotated, cited_sources


@pytest.mark.parametrize("name", preset_names())
def test_every_setting_of_a_shipped_preset_is_cited(name: str) -> None:
    cited = cited_sources(name)
    for key, value in cited.items():
        assert value or key in {"description", "extends", "name"}, f"{name}: {key} has no source"


def test_show_names_the_source_of_every_line() -> None:
    text = annotated("simcse-bert-base", ["train.batch_size=32"])
    assert "batch_size = 32                     # --set" in text
    assert all("#" in line for line in text.splitlines() if " = " in line and not line.startswith("description"))


def test_a_source_stands_apart_from_a_long_value() -> None:
    lines = annotated("all-three").splitlines()
    assert 'order = ["hard_negatives", "noise", "instance_weight"] # DCLR Eq. 6' in lines
