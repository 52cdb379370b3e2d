"""The race's plan: it fits into the time, drops what does not, and is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from conftest import WORDS
from isotrope.choice.candidates import recipes
from isotrope.choice.clock import Clock
from isotrope.choice.judges import judges_of
from isotrope.choice.race import FEWEST_PAIRS, MOST_ROUNDS, PLAN, Race, Start, mean_score
from isotrope.store.atomic import write_json
from isotrope.store.records import read_record
from isotrope.text.collection import open_documents
from library import write_library


def race(folder: Path, seconds: float, trained_on: int = 10_000, **plan: Any) -> Race:
    folder.mkdir(exist_ok=True)
    if plan:
        write_json(folder / PLAN, plan)
    start = Start("model", None, ["documents"], None, None, 100, trained_on, 0)
    return Race(start, folder, [], [], Clock(seconds), Console(quiet=True))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What a race trains, in order; nothing is trained."""
    calls: list[tuple[str, int]] = []

    def note(self: Race, recipe: Any, pairs: int, pooling: str | None, steps: Any) -> None:
        calls.append((recipe.name, pairs))
        self.scores[recipe.name] = {"task": np.array([len(calls) / 10])}
        self._recipes[recipe.name] = recipe.name

    monkeypatch.setattr(Race, "_trained", note)
    return calls


def test_each_recipe_is_trained_shortly_and_the_better_half_for_longer(
    tmp_path: Path, trained: list[tuple[str, int]]
) -> None:
    found = recipes(raw=True, titled=True)
    race(tmp_path, 1200, measuring=10, speed=10_000).trainings(found, None, ())
    assert [name for name, _ in trained[:3]] == [recipe.name for recipe in found]
    short = {pairs for _, pairs in trained[:3]}
    assert len(short) == 1
    assert [name for name, _ in trained[3:]] == [found[2].name, found[1].name], "the best ones by their scores"
    assert all(pairs > 1.5 * max(short) for _, pairs in trained[3:])
    assert all(pairs <= MOST_ROUNDS * 10_000 for _, pairs in trained)


def test_with_little_time_the_first_recipes_are_trained_or_none(tmp_path: Path, trained: list[tuple[str, int]]) -> None:
    found = recipes(raw=True, titled=True)
    race(tmp_path / "a", 100, measuring=2, speed=5_000).trainings(found, None, ())
    assert trained
    assert trained[0][0] == found[0].name
    assert all(pairs >= FEWEST_PAIRS for _, pairs in trained)
    trained.clear()
    race(tmp_path / "b", 10, measuring=5, speed=100).trainings(found, None, ())
    assert not trained


def test_a_plan_is_kept_for_a_race_that_goes_on(tmp_path: Path, trained: list[tuple[str, int]]) -> None:
    found = recipes(raw=False, titled=False)
    race(tmp_path, 1200, measuring=10, speed=10_000).trainings(found, None, ())
    planned = list(trained)
    assert read_record(tmp_path / PLAN)["plans"]
    trained.clear()
    race(tmp_path, 50).trainings(found, None, ())
    assert trained == planned, "whatever time is left"


def test_the_mean_is_over_tasks_not_over_queries() -> None:
    assert mean_score({"a": np.array([1.0]), "b": np.array([0.0, 0.5, 0.1])}) == pytest.approx(0.6)


def test_short_documents_have_fewer_pairs_than_planned_and_are_trained_all_the_same(
    tiny_model: Path, tmp_path: Path
) -> None:
    path = write_library(tmp_path / "library.jsonl", 80)
    short = "".join(f'{{"title": "", "text": "the old king of {word} day"}}\n' for word in WORDS[:40])
    path.write_text(path.read_text() + short)
    found = judges_of(list(open_documents(path, cache=tmp_path / "cache").each()), None, 0)
    start = Start(str(tiny_model), None, [path], None, None, 20, 100, 0)
    raced = Race(start, tmp_path / "out", found.tasks, [], Clock(600), Console(quiet=True))
    recipe = recipes(raw=True, titled=False)[0]
    raced._trained(recipe, 192, "mean", ())
    assert not raced.left_out
    assert set(raced.scores) == {"crops, 192 pairs", "crops, 192 pairs, averaged"}
