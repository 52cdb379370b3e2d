"""The quickstart, whole, on a small machine; its measures against naive oracles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from quick import run
from scipy.stats import spearmanr

import isotrope
import isotrope.quickstart.run
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.measures import measure_model
from isotrope.quickstart.run import POOLING, quickstart


def test_the_result_holds_what_two_models_earn(finished: Path, tiny_model: Path, text: Docstrings) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    encoders = {
        "before": isotrope.load(str(tiny_model), POOLING),
        "after": isotrope.load(str(finished / "improved" / "model")),
    }
    for when, encoder in encoders.items():
        measured = measure_model(encoder, text)
        measures = {name: values[when] for name, values in result["measures"].items()}
        assert measures["retrieval"] == pytest.approx(np.mean(measured.reciprocal), abs=1e-6)
        assert measures["similarity"] == pytest.approx(
            spearmanr(measured.cosines, similarity_pairs().gold).statistic, abs=1e-6
        )
        assert measures["alignment"] == pytest.approx(measured.alignment, abs=1e-6)
        assert measures["uniformity"] == pytest.approx(measured.uniformity, abs=1e-6)
    for name in ("retrieval", "similarity"):
        m = result["measures"][name]
        assert m["difference"] == pytest.approx(m["after"] - m["before"])
        assert m["low"] <= m["difference"] <= m["high"]
    assert result["text"]["documents"] == len(text.titles) == 240
    assert result["text"]["queries"] == len(text.queries) > 0
    assert result["verdict"] in {"better", "worse", "not significant"}
    improved = json.loads((finished / "improved" / "result.json").read_text())
    assert (result["choice"], result["candidates"]) == (improved["choice"], len(improved["table"]))
    assert improved["seconds"] < result["seconds"]
    assert result["peak_memory_mb"] > 50
    rows = [json.loads(line) for line in (finished / "documents.jsonl").read_text().splitlines()]
    assert [(row["title"], row["text"]) for row in rows] == list(zip(text.titles, text.texts, strict=True))
    assert {path.name for path in finished.glob(".*")} == {".isotrope", ".lock"}


def test_a_second_call_gives_the_same_result_at_once(
    finished: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isotrope.quickstart.run, "improve", None)
    assert run(finished, tiny_model, None) == json.loads((finished / "quickstart.json").read_text())
    with pytest.raises(UserError, match="holds a result with seed = 0, not 1"):
        run(finished, tiny_model, None, seed=1)


def test_a_stopped_call_goes_on_with_the_same_text(
    finished: Path, tiny_model: Path, text: Docstrings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(isotrope.quickstart.run, "improve", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "start", tiny_model, text)
    monkeypatch.setattr(isotrope.quickstart.run, "gather", None)  # it is not gathered again
    result = run(tmp_path / "start", tiny_model, None)
    undisturbed = json.loads((finished / "quickstart.json").read_text())
    assert result["resumed"]
    assert not undisturbed["resumed"]
    assert result["measures"] == undisturbed["measures"]


def test_a_folder_with_something_else_is_left_alone(tiny_model: Path, text: Docstrings, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no quickstart"):
        run(tmp_path, tiny_model, text)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(UserError, match="does not exist"):
        quickstart(tmp_path / "new", model="./no-such-model", text=text)
    assert not (tmp_path / "new").exists()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a symbolic link"):
        run(tmp_path / "link", tiny_model, text)


def test_somebody_s_model_in_the_folder_is_refused(finished: Path, tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "improved" / "model")
    (folder / "improved" / "model").mkdir()
    (folder / "improved" / "model" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no model"):
        run(folder, tiny_model, None)
    assert (folder / "improved" / "model" / "mine.txt").read_text() == "mine"


def test_a_deleted_model_is_made_again(finished: Path, tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "improved" / "model")
    result = run(folder, tiny_model, None)
    assert (folder / "improved" / "model" / "modules.json").is_file()
    assert result["measures"] == json.loads((finished / "quickstart.json").read_text())["measures"]


@pytest.mark.parametrize(
    ("name", "contents"), [("quickstart.json", "{}"), ("quickstart.json", ""), ("docstrings.json", '{"titles": 3}')]
)
def test_a_damaged_record_is_one_clear_line(
    finished: Path, tiny_model: Path, tmp_path: Path, name: str, contents: str
) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder)
    (folder / name).write_text(contents)
    if name == "docstrings.json":
        (folder / "quickstart.json").unlink()
    with pytest.raises(UserError, match=f"{name} is damaged"):
        run(folder, tiny_model, None)


def test_two_quickstarts_in_one_folder_are_kept_apart(finished: Path, tiny_model: Path) -> None:
    with FileLock(finished / ".lock"), pytest.raises(UserError, match="in use by another process"):
        run(finished, tiny_model, None)
