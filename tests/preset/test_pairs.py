"""[pairs] of a preset: its options are checked like those of every component, and presets without it have none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.preset.pairs import check_pairs, pair_maker
from isotrope.preset.preset import check_third_parties, component_classes, read_preset
from isotrope.text.pairs.crops import Crops
from isotrope.text.pairs.neighbours import Neighbours
from isotrope.text.pairs.passages import Passages
from isotrope.text.pairs.title_body import TitleBody

THEIRS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class First:
    stage = "pairs"
    words: int = 3
    needs = "a word"

    def __call__(self, document, count, generator):
        return []
"""


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("crops", Crops(8, 24, True)),
        ("crops-raw", Crops(8, 24, True)),
        ("neighbours", Neighbours("sentence", 5)),
        ("title-body", TitleBody(16, 48)),
        ("distil-documents", Passages()),
    ],
)
def test_presets_that_read_documents(name: str, maker: object) -> None:
    preset = read_preset(name)
    assert preset.pairs is not None
    assert pair_maker(preset.pairs) == (maker, 8 if name == "distil-documents" else 2)
    assert component_classes(preset)[0] is type(maker)
    assert preset.train.select == []


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("pairs.kind=cuts", "preset crops: pairs has no kind 'cuts'"),
        ("pairs.kind=3", "pairs.kind = 3 is not possible"),
        ("pairs.rounds=0", "pairs.rounds = 0 is not possible"),
        ("pairs.rounds=true", "pairs.rounds = True is not possible"),
        ("pairs.shortest=0", "pairs.shortest = 0 is not possible"),
        ("pairs.shortest=30", "pairs.longest = 24 is less than shortest = 30"),
        ("pairs.longer=9", "pairs.longer is an unknown key: did you mean 'pairs.longest'? pairs takes shortest"),
    ],
)
def test_a_mistake_is_named_as_it_stands_in_the_preset(override: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read_preset("crops", [override])
    assert problem.removeprefix("preset crops: ") in str(caught.value)


def test_without_a_kind_the_kinds_are_listed() -> None:
    with pytest.raises(UserError, match=r"pairs.kind = None is not possible: choose one of crops, neighbours, .*, or"):
        read_preset("simcse", ["pairs.rounds=2"])
    assert read_preset("crops", ["pairs=false"]).pairs is None


def test_a_third_party_s_class_is_imported_when_a_run_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs_of_theirs.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    preset = read_preset("simcse", ["pairs.kind=pairs_of_theirs:First", "pairs.words=5"])
    assert "pairs_of_theirs" not in sys.modules
    check_third_parties(preset)
    assert preset.pairs is not None
    assert pair_maker(preset.pairs)[0].words == 5  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"pairs.word is an unknown key"):
        check_pairs({"kind": "pairs_of_theirs:First", "word": 5}, third_parties=True)
    with pytest.raises(UserError, match="is not a component of pairs"):
        check_pairs({"kind": "isotrope.terms.infonce:InfoNCE"}, third_parties=True)
