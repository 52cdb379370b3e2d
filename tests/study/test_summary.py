"""What a study keeps of its cells: what they share stands once, and no place of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isotrope.study.summary import cells_summary, without_paths


def result(seed: int = 0, epochs: int = 1, cores: int = 2, corpus: str = "a") -> dict[str, Any]:
    return {
        "preset": "simcse", "seed": seed, "settings": {"train": {"epochs": epochs}}, "data": {"corpus": corpus},
        "environment": {"cores": cores}, "seconds": {"cell": 1.5}, "scores": {"Avg.": 50.0}, "label": "SimCSE",
    }  # fmt: skip


def test_what_cells_share_stands_once() -> None:
    cells = {"a": result(), "b": result(seed=1), "c": result(epochs=2, corpus="b"), "d": result(cores=8)}
    record = cells_summary(cells)
    assert len(record["settings"]) == 2
    assert record["data"] == [{"corpus": "a"}, {"corpus": "b"}]
    assert record["environments"] == [{"cores": 2}, {"cores": 8}]
    for key, one in cells.items():
        kept = record["cells"][key]
        assert record["settings"][kept["settings"]] == one["settings"]
        assert record["data"][kept["data"]] == one["data"]
        assert record["environments"][kept["environment"]] == one["environment"]
        assert (kept["seed"], kept["preset"], kept["seconds"]) == (one["seed"], "simcse", {"cell": 1.5})
        assert "scores" not in kept, "the rows have them"
    assert json.loads(json.dumps(record)) == record


def test_no_cells_are_an_empty_record() -> None:
    assert cells_summary({}) == {"cells": {}, "settings": {}, "data": [], "environments": []}


def test_the_order_of_keys_makes_no_other_settings() -> None:
    one, other = result(), result(seed=1)
    one["settings"], other["settings"] = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert len(cells_summary({"x": one, "y": other})["settings"]) == 1


def test_the_same_model_elsewhere_is_the_same_settings(tmp_path: Path) -> None:
    one, other = result(), result(seed=1)
    for place, each in (("one", one), ("other", other)):
        each["settings"] = {"encoder": {"backbone": str(tmp_path / place / "cells" / "model")}}
    (kept,) = cells_summary({"x": one, "y": other})["settings"].values()
    assert kept == {"encoder": {"backbone": "cells/model"}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/home/me/models/bert", "models/bert"),
        ("/bert", "bert"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("princeton-nlp/sup-simcse", "princeton-nlp/sup-simcse"),
        ("a/b/c/d", "a/b/c/d"),
        ({"x": ["/a/b/c", 3, None, True]}, {"x": ["b/c", 3, None, True]}),
        (0.5, 0.5),
    ],
)
def test_of_absolute_paths_two_names_stay(value: Any, expected: Any) -> None:
    assert without_paths(value) == expected
    assert without_paths(without_paths(value)) == without_paths(value)
