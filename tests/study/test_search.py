"""A search over settings, which the dev pairs alone judge."""

import json
import tomllib
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.preset.preset import read_preset
from isotrope.study.search import search_settings, trials_of
from isotrope.study.spec import Range, read_study, with_tuned
from isotrope.training.pairs import dev_pairs, judges
from studies import quiet, write_study


def test_a_search_gives_every_row_its_trials_and_goes_on(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    rows = """
    [rows.SimCSE]
    [rows.Whitened]
    preset = "whitenedcse"
    [search]
    trials = 2
    [search.keys]
    "train.warmup" = {low = 0.0, high = 0.3}
    "views.sgw.groups" = [8, 16]
    """
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)
    best = search_settings(file, output=tmp_path / "out", workers=2, console=quiet())
    text = best.read_text()
    found = tomllib.loads(text)["rows"]
    assert {label: row["trials"] for label, row in found.items()} == {"SimCSE": 2, "Whitened": 2}
    assert not any("sgw" in one for one in found["SimCSE"]["set"])
    assert read_preset("whitenedcse", found["Whitened"]["set"]).views["sgw"]["groups"] in (8, 16)
    results = [json.loads(path.read_text()) for path in tmp_path.glob("out/cells/*/result.json")]
    assert all(result["data"]["tests"] == {} for result in results), "no test pair was looked at"
    for label, row in found.items():
        assert row["dev"] == max(r["selection"]["best_score"] for r in results if r["label"].startswith(label))
    search_settings(file, output=tmp_path / "out", console=quiet())
    assert best.read_text() == text
    assert len(list(tmp_path.glob("out/cells/*/result.json"))) == len(results), "no trial is run twice"
    tuned = with_tuned(read_study(file), best).rows["Whitened"]
    assert tuned.set == tuple(found["Whitened"]["set"])
    with pytest.raises(UserError, match="not the result of a search of this study"):
        with_tuned(read_study(file), file)
    with pytest.raises(UserError, match="not the result of a search of this study"):
        with_tuned(read_study("tiny"), best)
    # half of the dev pairs judges this study: the search reads the other half alone, as a run does
    _, kept = judges(None, dev_pairs([str(pairs_file)], None), None)
    (chosen,) = (tmp_path / "out" / "select").iterdir()
    assert read_pairs(chosen).first == kept[chosen.stem].first


def test_trials_are_drawn_by_the_seed_and_more_of_them_begin_with_the_same() -> None:
    space = {"a": Range(low=1e-5, high=1e-3, log=True), "b": Range(low=0, high=1), "c": ("x", 2)}
    few, many = (trials_of(space, count, seed=3) for count in (5, 40))
    assert many[:5] == few != trials_of(space, 5, seed=4)
    values = [tomllib.loads("\n".join(trial)) for trial in many]
    assert all(1e-5 <= value["a"] <= 1e-3 and 0 <= value["b"] <= 1 for value in values)
    assert {value["c"] for value in values} == {"x", 2}
    assert sum(value["a"] < 1e-4 for value in values) > 10, "as many of each order of magnitude"
    assert sorted(trials_of({"c": ("x", 2), "d": (1, 2)}, 9, 0)) == [
        ['c="x"', "d=1"], ['c="x"', "d=2"], ["c=2", "d=1"], ["c=2", "d=2"],
    ]  # fmt: skip
    assert trials_of({}, 9, 0) == [[]]
