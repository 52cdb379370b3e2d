"""Whole runs: what they take, what they leave behind, seeds, kills."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pandas import DataFrame
from sentence_transformers import SentenceTransformer

import isotrope
from conftest import sentences
from isotrope.console.plain import plain_console
from isotrope.encoder.checksum import model_checksum
from isotrope.errors import UserError
from isotrope.training.train import Run
from isotrope.training.trainer import ObjectiveState
from small_runs import SHORT, SMALL, Small, logged, same_weights, small_run


def test_a_run_leaves_its_record(finished: Run) -> None:
    kept = {path.name for path in finished.folder.iterdir()}
    assert kept >= {"model", "result.json", "metrics.jsonl", "preset.toml", "environment.json", "job.json"}
    assert finished.verdict.word in {"better", "worse", "no difference found"}
    records = logged(finished.folder)
    evaluated = {record["step"]: record["score"] for record in records if "score" in record}
    assert list(evaluated) == [5, 10, 15, 20]
    selection = finished.record["selection"]
    assert selection["best_score"] == max(evaluated.values()) == evaluated[selection["best_step"]]
    losses = [record["infonce"] for record in records if "infonce" in record]
    assert losses[-1] < 0.8 * losses[0], "it learns"


def test_the_model_is_the_best_one_and_loads_in_plain_sentence_transformers(finished: Run) -> None:
    plain = SentenceTransformer(str(finished.folder / "model"), device="cpu")
    assert np.array_equal(plain.encode(sentences(5)), finished.model.to("cpu").encode(sentences(5)))
    assert not any("linear" in name for name, _ in plain.named_parameters()), "the head is for training only"
    assert plain.max_seq_length == 64, "the training length is not the model's"
    best = finished.record["selection"]["best_step"]
    kept = finished.folder / "checkpoints" / f"checkpoint-{best}"
    assert same_weights(finished.folder / "model", kept, "model.safetensors")


def test_a_result_saves_its_model_and_writes_its_report(finished: Run, tmp_path: Path) -> None:
    finished.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "README.md").is_file()
    assert np.array_equal(isotrope.load(tmp_path / "mine").encode(["a bird"]), finished.model.encode(["a bird"]))
    page = finished.report(tmp_path / "page.html")
    assert finished.verdict.word in page.read_text(encoding="utf-8")


def test_the_default_method_fits_the_model_and_is_said(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A raw model gets SimCSE; a sentence-embedding model is adapted, and keeps its pooling."""
    isotrope.load(tiny_model, "mean").save_pretrained(str(tmp_path / "embedding"))
    few = {"overrides": ["train.batch_size=16", "train.epochs=0.1"], "dev": "none", "labels": "none", "sentences": 64}
    for model, preset, pooling in ((tiny_model, "simcse", "cls"), (tmp_path / "embedding", "adapt", "mean")):
        found = isotrope.train(corpus_file, model=model, output=tmp_path / preset, **few)
        assert found.record["preset"] == preset
        assert found.verdict.word == "not tested"
        assert found.model[1].pooling_mode == pooling
        assert f"--preset {preset}" in " ".join(capsys.readouterr().out.split())


def test_seeds_differ_and_a_seed_repeats(small: Small) -> None:
    first, again, other = (small(f"run{place}", seed=seed, **SHORT).folder for place, seed in enumerate((1, 1, 2)))
    assert same_weights(first, again)
    assert not same_weights(first, other)


def test_a_finished_run_is_only_read_until_it_begins_anew(small: Small) -> None:
    run = small("run", **SHORT)
    before = (run.folder / "model" / "model.safetensors").stat().st_mtime_ns
    assert small(run.folder, **SHORT).record == run.record
    assert (run.folder / "model" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="seed = 0, not 7: choose another --output, or begin anew with --restart"):
        small(run.folder, seed=7, **SHORT)
    assert small(run.folder, seed=7, restart=True, **SHORT).record["seed"] == 7


@pytest.fixture(scope="module")
def from_files(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    table = tmp_path_factory.mktemp("table") / "texts.csv"
    table.write_text("name,text\n" + "".join(f"{number},{text}\n" for number, text in enumerate(sentences(64))))
    return isotrope.train(table, preset="simcse", model=tiny_model, overrides=SMALL, dev="none", labels="none")


@pytest.mark.parametrize("given", [DataFrame, lambda table: table["text"]])
def test_objects_give_the_same_model_as_files(
    given: Callable[[dict[str, list[str]]], Any], from_files: Run, tiny_model: Path
) -> None:
    """Without an output nothing is left when the result is gone; the loaded model stays as it was."""
    model = isotrope.load(tiny_model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts = given({"text": sentences(64), "name": [f"{number}" for number in range(64)]})
    run = isotrope.train(texts, preset="simcse", model=model, overrides=SMALL, dev="none", labels="none")
    assert np.array_equal(run.model.encode(sentences(5)), from_files.model.encode(sentences(5)))
    assert run.record["selection"]["steps"] == 4
    assert "64 " in (said := (run.folder / "model" / "README.md").read_text())
    assert "texts.parquet" not in said
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    folder = run.folder
    del run
    assert not folder.exists()


def test_each_file_is_opened_once(small: Small, corpus_file: Path, cached: Path) -> None:
    """By a first training, with nothing in the cache."""
    opened: list[str] = []
    sys.addaudithook(lambda event, words: opened.append(str(words[0])) if event == "open" and opened_by_test else None)
    opened_by_test = [True]
    small("run", **SHORT)
    opened_by_test.clear()
    assert opened.count(str(corpus_file)) == 1


def test_a_teacher_that_is_a_preset_is_trained_first(small: Small, tmp_path: Path) -> None:
    """As if it had been trained by itself and named; the same call goes on with both."""
    given = {"preset": "rankcse-listnet", "labels": "none", "dev": "none", "sentences": 64}
    said = io.StringIO()
    console = plain_console(file=said)
    run = small("run", train_teachers=True, console=console, **given)
    assert re.search(r"2 trainings, of simcse first, take about \d+ s\n", said.getvalue())
    teacher = tmp_path / "run.teachers" / "simcse" / "model"
    assert json.loads((teacher.parent / "result.json").read_text())["preset"] == "simcse"
    named = small("named", teachers={"simcse": teacher}, **given)
    assert model_checksum(run.model) == model_checksum(named.model)
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    small("run", train_teachers=True, **given)
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before


def test_text_that_changes_under_a_training_ends_it(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "notes.txt"
    growing.write_text(corpus_file.read_text())

    def grow(*_: object, **__: object) -> None:
        with growing.open("a") as file:
            file.write("one more sentence\n")

    monkeypatch.setattr(ObjectiveState, "on_step_end", grow)
    with pytest.raises(UserError, match=r"notes\.txt changed while the work was going on"):
        small_run(tiny_model, growing, tmp_path / "run", **SHORT)
    assert not (tmp_path / "run" / "result.json").exists()
