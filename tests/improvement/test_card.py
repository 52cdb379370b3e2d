"""The card of a chosen model tells where it comes from and how it was chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from isotrope.encoder import load
from isotrope.improvement.card import choice_card
from isotrope.improvement.clock import Clock
from isotrope.improvement.race import Made, Race, Start
from isotrope.text.collection import open_documents
from library import race_record, write_library


def test_a_step_is_told_and_keep_adds_none(tiny_model: Path, tmp_path: Path) -> None:
    path = write_library(tmp_path / "library.jsonl")
    documents = open_documents(path, cache=tmp_path / "cache")
    race = Race(
        Start(str(tiny_model), None, [path], None, None, 20, 120, 0), tmp_path, [], [], Clock(1), Console(quiet=True)
    )
    race.made |= {"keep": Made(None), "soft": Made("cls", step="whitening:exponent=0.25")}
    model = load(tiny_model)
    (step,) = choice_card(race, "soft", race_record(), documents, model).steps
    told = {key: value for key, value, _ in step.settings}
    assert told == {"pooling": "cls", "post step": "whitening:exponent=0.25"}
    assert step.data.name == "library.jsonl"
    assert step.cites == ["su2021whitening"]
    kept = choice_card(race, "keep", race_record("keep"), documents, model)
    assert not kept.steps
    assert kept.verdict
    race.start = replace(race.start, model="isotrope/small")
    kept = choice_card(race, "keep", race_record("keep"), documents, model)
    assert "## Is it better than isotrope/small?" in kept.markdown(tmp_path), (
        "and not: than the model that it is made of"
    )
