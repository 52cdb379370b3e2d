"""The quickstart, whole, on a small machine; its measures against naive oracles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from quick import run
from scipy.stats import spearmanr

import isotrope
import isotrope.quickstart.run
from isotrope.errors import UserError
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.post.whitening import whitening
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.measures import FOUR_MODELS, measure_model
from isotrope.quickstart.run import POOLING, quickstart


def test_the_result_holds_what_two_models_earn(finished: Path, tiny_model: Path, text: Docstrings) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    trained = finished / "run" / "model"
    encoders = {
        "before": isotrope.load(str(tiny_model), POOLING),
        "whitened": isotrope.load(str(finished / "whitened")),
        "trained": isotrope.load(str(trained)),
        "after": isotrope.load(str(finished / "model")),
    }
    assert list(encoders) == list(FOUR_MODELS)
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
    assert len({result["measures"]["uniformity"][stage] for stage in FOUR_MODELS}) == 4
    ours = {"before": (str(tiny_model), "whitened", POOLING), "trained": (str(trained), "model", None)}
    for name, folder, pooling in ours.values():
        vectors = isotrope.load(str(finished / folder)).encode(text.sentences)
        own = isotrope.load(name, pooling).encode(text.sentences)
        expected = (own - own.mean(0)) @ whitening(own.astype(np.float64))[1]
        np.testing.assert_allclose(vectors, expected, atol=2e-3)
        np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(vectors.shape[1]), atol=0.02)
    assert result["text"]["sentences_trained_on"] == len(text.sentences) == 320
    assert result["text"]["queries"] == len(text.queries) > 0
    assert result["verdict"] in {"better", "worse", "not significant"}
    assert 0 < result["seconds"]["training"] < result["seconds"]["total"]
    assert result["peak_memory_mb"] > 50
    assert not list((finished / "run").glob("*.html"))  # a second report would tell another story
    assert (finished / "sentences.txt").read_text().splitlines() == text.sentences
    assert {path.name for path in finished.glob(".*")} == {".isotrope", ".lock"}


def test_a_second_call_gives_the_same_result_at_once(
    finished: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isotrope.quickstart.run, "run_training", None)
    assert run(finished, tiny_model, None) == json.loads((finished / "quickstart.json").read_text())
    with pytest.raises(UserError, match="holds a result with seed = 0, not 1"):
        run(finished, tiny_model, None, seed=1)


def test_a_stopped_call_goes_on_with_the_same_text(
    finished: Path, tiny_model: Path, text: Docstrings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = isotrope.quickstart.run.run_training

    def stop_at_step_5(*args: Any, **options: Any) -> Any:
        from isotrope.run.log import MetricsLog

        add = MetricsLog.add

        def stopping(self: MetricsLog, step: int, **values: Any) -> None:
            add(self, step, **values)
            if step >= 5:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(MetricsLog, "add", stopping)
            return train(*args, **options)

    monkeypatch.setattr(isotrope.quickstart.run, "run_training", stop_at_step_5)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "start", tiny_model, text)
    monkeypatch.setattr(isotrope.quickstart.run, "run_training", train)
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
        quickstart(tmp_path / "new", backbone="./no-such-model", text=text)
    assert not (tmp_path / "new").exists()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a symbolic link"):
        run(tmp_path / "link", tiny_model, text)


@pytest.mark.parametrize("name", ["model", "whitened"])
def test_somebody_s_model_in_the_folder_is_refused_before_the_work(
    finished: Path, tiny_model: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / "whitened")
    (folder / name).mkdir()
    (folder / name / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no model"):
        run(folder, tiny_model, None)
    assert (folder / name / "mine.txt").read_text() == "mine"


def test_a_deleted_model_is_made_again(
    finished: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "model")
    result = run(folder, tiny_model, None)
    assert (folder / "model" / "modules.json").is_file()
    assert result["measures"] == json.loads((finished / "quickstart.json").read_text())["measures"]


@pytest.mark.parametrize(
    ("name", "contents"), [("quickstart.json", "{}"), ("quickstart.json", ""), ("docstrings.json", '{"sentences": 3}')]
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
