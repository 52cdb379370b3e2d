"""A run on documents: pairs are drawn, batches keep documents apart, the identity holds all that decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsspec import AbstractFileSystem
from rich.console import Console
from safetensors.torch import load_file

from conftest import sentences
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.text.collection import open_documents
from isotrope.text.sample import Sample
from isotrope.training.reading import open_text, text_key
from isotrope.training.settings import RunSettings
from isotrope.training.train import Run
from small_runs import small_run, unfinished

OPTIONS: dict[str, Any] = {"sentences": None, "dev": "none", "test": "none", "preset": "crops"}


@pytest.fixture(scope="module")
def documents_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents with titles and two paragraphs of three sentences."""
    path = tmp_path_factory.mktemp("documents") / "documents.jsonl"
    lines = [f"{sentence.capitalize()}." for sentence in sentences(40 * 7)]
    records = []
    for number in range(40):
        title, *rest = lines[7 * number : 7 * number + 7]
        records.append({"title": title, "text": " ".join(rest[:3]) + "\n\n" + " ".join(rest[3:])})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def on_documents(tiny_model: Path, documents_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tiny_model, documents_file, tmp_path_factory.mktemp("run") / "run", **OPTIONS)


def settings(corpus: Path, **more: Any) -> RunSettings:
    return RunSettings(corpus=corpus, output="out", **{"preset": "crops", **more})


def test_a_run_trains_on_pairs_of_documents(on_documents: Run) -> None:
    assert on_documents.result["selection"]["steps"] == 4  # two rounds of 40 documents, 16 a batch
    identity = json.loads((on_documents.folder / "run.json").read_text())
    assert identity["preset"]["pairs.kind"] == "crops"
    card = (on_documents.model / "README.md").read_text()
    assert "izacard2022contriever" in card


def test_a_stopped_run_ends_as_if_it_had_not_stopped(
    on_documents: Run, tiny_model: Path, documents_file: Path, tmp_path: Path
) -> None:
    whole = small_run(tiny_model, documents_file, tmp_path / "run", "train.save_steps=3", **OPTIONS)
    again = unfinished(whole, tmp_path / "again")
    for later in again.glob("checkpoints/*-4"):
        (later / "model.safetensors").unlink()  # a damaged checkpoint is skipped for the older one
    resumed = small_run(tiny_model, documents_file, again, "train.save_steps=3", resume=True, **OPTIONS)
    weights = [load_file(run.model / "model.safetensors") for run in (resumed, whole)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"held_out": 5}, "what is held out"),
        ({"title": "text", "text": "title"}, "the contents of the corpus"),
    ],
)
def test_other_documents_are_another_run(
    on_documents: Run, tiny_model: Path, documents_file: Path, other: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        small_run(tiny_model, documents_file, on_documents.folder, resume=True, **OPTIONS | other)


def test_other_options_of_the_pairs_are_another_run(on_documents: Run, tiny_model: Path, documents_file: Path) -> None:
    with pytest.raises(UserError, match=r"pairs.longest = 20 \(then 24\)"):
        small_run(tiny_model, documents_file, on_documents.folder, "pairs.longest=20", resume=True, **OPTIONS)


def test_held_out_documents_are_never_trained_on(documents_file: Path, tmp_path: Path) -> None:
    asked = settings(documents_file, held_out=10, seed=3)
    corpus = open_text(asked, read_preset("crops"))
    assert corpus.key == text_key(asked, read_preset("crops"))
    documents = open_documents(documents_file, cache=tmp_path)
    train, held = documents.split(10, 3)
    assert corpus.rounds == (30, 30)
    bodies = {row: documents.texts(np.array([row]))[0] for row in range(40)}
    for pair in corpus.dataset:
        sources = {row for row, body in bodies.items() if pair["text"] in body and pair["positive"] in body}
        assert sources & set(train.tolist())
        assert not sources & set(held.tolist())


@pytest.mark.parametrize("name", ["crops", "neighbours", "title-body"])
def test_every_kind_reads_the_documents(name: str, documents_file: Path) -> None:
    corpus = open_text(settings(documents_file), read_preset(name, ["pairs.shortest=3"]))
    assert corpus.rounds == (40, 40)
    assert all(row["text"] != row["positive"] for row in corpus.dataset)


def test_a_preset_without_pairs_reads_texts(documents_file: Path) -> None:
    assert open_text(settings(documents_file, preset="simcse"), read_preset("simcse")).columns == ("text",)


@pytest.mark.parametrize(
    ("preset", "given", "problem"),
    [
        ("crops", {"positive": "p"}, "positive has no effect with the preset crops, which draws its pairs from whole"),
        ("crops", {"split": "sentences"}, "split has no effect with the preset crops"),
        ("crops", {"keep_duplicates": True}, "keep_duplicates has no effect with the preset crops"),
        ("simcse", {"held_out": 5}, "held_out has no effect with the preset simcse, which reads texts, not documents"),
        ("simcse", {"title": "t"}, "title has no effect with the preset simcse"),
    ],
)
def test_a_setting_without_effect_is_refused(
    preset: str, given: dict[str, Any], problem: str, documents_file: Path
) -> None:
    with pytest.raises(UserError, match=problem):
        text_key(settings(documents_file, **given), read_preset(preset))


def _write(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


LONG = "some words that are enough for two crops of a document"


@pytest.mark.parametrize(
    ("preset", "rows", "problem"),
    [
        ("crops", [{"text": LONG}], "a single document is left"),
        ("crops", [{"text": LONG}] * 500, "a single document is left (500 documents read, dropped: 499 duplicate"),
        ("crops", [{"text": f"short {i}"} for i in range(50)], "0 of 50 documents have 9 words for two crops"),
        (
            "crops",
            [{"text": f"{LONG} {i}"} for i in range(9)],
            "batch of 16 is larger than the 9 documents that give",
        ),
        (
            "neighbours",
            [{"text": f"{LONG} {i}."} for i in range(50)],
            "0 of 50 documents have two neighbouring",
        ),
        ("title-body", [{"text": f"{LONG} {i}"} for i in range(50)], "0 of 50 documents have a title and a body"),
        (
            "title-body",
            [{"title": LONG, "text": LONG[:9]}, {"title": "", "text": LONG}],
            "1 of 2 documents has a title",
        ),
    ],
)
def test_bad_documents_are_one_clear_line(
    preset: str, rows: list[dict[str, str]], problem: str, tiny_model: Path, tmp_path: Path
) -> None:
    corpus = _write(tmp_path / "d.jsonl", *rows)
    with pytest.raises(UserError) as caught:
        small_run(tiny_model, corpus, tmp_path / "run", "train.max_length=32", **OPTIONS | {"preset": preset})
    assert problem in caught.value.problem
    assert not (tmp_path / "run" / "run.json").exists()


def test_what_was_read_is_said(tiny_model: Path, documents_file: Path, tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as file:
        console: Console = plain_console(file=file)
        small_run(tiny_model, documents_file, tmp_path / "run", "train.epochs=0.3", console=console, **OPTIONS)
    said = (tmp_path / "said").read_text()
    assert "40 documents read from 1 file, 40 kept, 0 dropped" in said
    assert "each row of a table is a document; 40 have a title" in said
    assert "80 pairs drawn from 40 of 40 documents" in said
    assert ": 80 pairs, 0.3 epochs, batches of 16" in said


def test_only_the_sample_of_a_url_is_kept(
    corpus_file: Path, memory: AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row for row what it is of a file on this machine, and the other rows are null."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path))
    monkeypatch.setattr("isotrope.training.reading.WATCHED", 5)
    memory.put_file(str(corpus_file), "/corpus.txt")
    preset = read_preset("simcse", ["train.batch_size=4"])
    asked = {"preset": "simcse", "sentences": 20, "seed": 3}
    here, there = (open_text(settings(place, **asked), preset) for place in (corpus_file, "memory://corpus.txt"))  # type: ignore[arg-type]
    sample, watched = Sample(there, 20, 3), Sample(there, 5, 0)
    assert (there.key, len(there), there.report.dropped) == (here.key, len(here), here.report.dropped)
    assert sample.texts() == Sample(here, 20, 3).texts()
    assert watched.texts() == Sample(here, 5, 0).texts()
    kept = {row["label"] for row in there.dataset if row["text"] is not None}
    assert kept == {*sample.order.rows(0, 20).tolist(), *watched.order.rows(0, 5).tolist(), 0, 1, 2, 3}
    other = open_text(settings("memory://corpus.txt", **asked | {"seed": 4}), preset)  # type: ignore[arg-type]
    assert Sample(other, 20, 4).texts() == Sample(here, 20, 4).texts()


@pytest.mark.slow
def test_a_run_on_a_url_is_that_on_its_copy(
    tiny_model: Path, corpus_file: Path, memory: AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that the other has read is found in the cache."""
    memory.put_file(str(corpus_file), "/corpus.txt")
    found = []
    for place in (corpus_file, "memory://corpus.txt"):
        monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / f"cache {len(found)}"))
        options = {"sentences": 64, "dev": "none", "test": "none"}
        found.append(small_run(tiny_model, place, tmp_path / str(len(found)), **options))  # type: ignore[arg-type]
    here, there = (run.folder for run in found)
    for name in ("run.json", "model/model.safetensors"):
        assert (there / name).read_bytes() == (here / name).read_bytes()
    assert "corpus.txt" in (there / "model/README.md").read_text()
    assert "memory:" not in (there / "model/README.md").read_text()
