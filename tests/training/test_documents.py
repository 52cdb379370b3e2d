"""A run on documents: pairs are drawn, batches keep documents apart, the identity holds all that decides."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec import AbstractFileSystem

import isotrope.text
from conftest import sentences
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.preset.preset import read_preset
from isotrope.text.sample import Sample
from isotrope.training.inputs import RunSettings, training_text
from isotrope.training.train import Run
from small_runs import small_run

OPTIONS: dict[str, Any] = {"sentences": None, "dev": "none", "labels": "none", "preset": "crops"}
SAID = io.StringIO()


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
    folder, console = tmp_path_factory.mktemp("run") / "run", plain_console(file=SAID)
    return small_run(tiny_model, documents_file, folder, "train.save_steps=3", console=console, **OPTIONS)


def settings(corpus: Path, **more: Any) -> RunSettings:
    return RunSettings(corpus=isotrope.text.open(corpus), **{"preset": "crops", **more})


def test_a_run_trains_on_pairs_of_documents_and_says_what_it_read(on_documents: Run) -> None:
    assert on_documents.record["selection"]["steps"] == 4  # two rounds of 40 documents, 16 a batch
    identity = json.loads((on_documents.folder / "job.json").read_text())
    assert identity["preset"]["pairs.kind"] == "crops"
    assert "izacard2022contriever" in (on_documents.folder / "model" / "README.md").read_text()
    said = SAID.getvalue()
    assert "40 documents read from 1 file, 40 kept, 0 dropped" in said
    assert "each row of a table is a document; 40 have a title" in said
    assert "80 pairs drawn from 40 of 40 documents" in said
    assert ": 80 pairs, 1 epoch, batches of 16" in said


def test_held_out_documents_are_never_trained_on(documents_file: Path) -> None:
    asked = settings(documents_file, held_out=10, seed=3)
    corpus, documents = training_text(asked, read_preset("crops")), asked.corpus.documents()
    train, held = documents.split(10, 3)
    assert corpus.rounds == (30, 30)
    bodies = {row: documents.texts(np.array([row]))[0] for row in range(40)}
    for pair in corpus.dataset:
        sources = {row for row, body in bodies.items() if pair["text"] in body and pair["positive"] in body}
        assert sources & set(train.tolist())
        assert not sources & set(held.tolist())


LONG = "some words that are enough for two crops of a document"


@pytest.mark.parametrize(
    ("preset", "rows", "problem"),
    [
        ("crops", [{"text": LONG}] * 500, "a single document is left (500 documents read, dropped: 499 duplicate"),
        ("crops", [{"text": f"{LONG} {i}"} for i in range(9)], "batch of 16 is larger than the 9 documents that give"),
        (
            "title-body", [{"title": LONG, "text": LONG[:9]}, {"title": "", "text": LONG}],
            "1 of 2 documents has a title",
        ),
    ],
)  # fmt: skip
def test_bad_documents_are_one_clear_line(
    preset: str, rows: list[dict[str, str]], problem: str, tiny_model: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "d.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError) as caught:
        small_run(tiny_model, corpus, tmp_path / "run", "train.max_length=32", **OPTIONS | {"preset": preset})
    assert problem in caught.value.problem
    assert not (tmp_path / "run" / "job.json").exists()


def test_only_the_sample_of_a_url_is_kept(
    corpus_file: Path, memory: AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row for row what it is of a file on this machine, and the other rows are null."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path))
    monkeypatch.setattr("isotrope.training.inputs.WATCHED", 5)
    memory.put_file(str(corpus_file), "/corpus.txt")
    preset = read_preset("simcse", ["train.batch_size=4"])
    asked = {"preset": "simcse", "sentences": 20, "seed": 3}
    here, there = (training_text(settings(place, **asked), preset) for place in (corpus_file, "memory://corpus.txt"))  # type: ignore[arg-type]
    sample, watched = Sample(there, 20, 3), Sample(there, 5, 0)
    assert (there.key, len(there), there.report.dropped) == (here.key, len(here), here.report.dropped)
    assert sample.texts() == Sample(here, 20, 3).texts()
    assert watched.texts() == Sample(here, 5, 0).texts()
    kept = {row["label"] for row in there.dataset if row["text"] is not None}
    assert kept == {*sample.order.rows(0, 20).tolist(), *watched.order.rows(0, 5).tolist(), 0, 1, 2, 3}
