"""The card of a run's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from isotrope.improvement.whiten import whiten
from isotrope.store.records import read_record
from isotrope.training.train import Run
from small_runs import small_run


def test_it_tells_the_run_and_no_text_of_it(finished: Run, corpus_file: Path, tiny_model: Path) -> None:
    text = (finished.folder / "model" / "README.md").read_text(encoding="utf-8")
    result = finished.record
    (scores,) = result["comparison"]["per_task"].values()
    for words in (
        f"{finished.verdict.word}**: ",
        "60 of your own graded pairs (pairs)",
        f"{100 * scores['before']:.2f} | {100 * scores['after']:.2f}",
        f"## Is it better than {tiny_model.name} (a raw language model",
        "### 1. Trained with `simcse`",
        f"| text | `{corpus_file.name}` |",
        f"{result['corpus']['used']:,} of {result['corpus']['rows']:,}",
        result["corpus"]["key"],
        "| `train.batch_size` | `16` | set for this run |",
        "| `views.passes` | `2` | SimCSE Sec. 3 |",
        "| `seed` | `0` |",
        '| `train.select` | `["pairs"]` | set for this run |',
        "gao2021simcse",
        "Labelled pairs chose the checkpoint (pairs)",
        "at most 32 tokens",
    ):
        assert words in text, words
    assert f"`{json.dumps(tiny_model.name)}`" in text
    assert str(tiny_model.parent) not in text
    assert str(corpus_file.parent) not in text
    assert not [sentence for sentence in corpus_file.read_text().splitlines() if sentence and sentence in text]


def test_it_tells_the_split_and_that_no_pairs_chose(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    run = small_run(tiny_model, corpus_file, tmp_path / "run", sentences=32, split="sentences:de")
    text = (run.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert "| `split` | `sentences:de` | set for this run |" in text
    assert "| `train.select` | `[]` | set for this run |" in text
    whiten(run.folder / "model", corpus_file, output=tmp_path / "white", k=8, sentences=100, split="sentences")
    assert '| `split` | `"sentences"` | set for this run |' in (tmp_path / "white" / "model" / "README.md").read_text()


def test_sentence_transformers_keeps_the_card(finished: Run, tmp_path: Path) -> None:
    SentenceTransformer(str(finished.folder / "model")).save_pretrained(str(tmp_path))
    assert (tmp_path / "README.md").read_text() == (finished.folder / "model" / "README.md").read_text()


def test_a_whitened_model_goes_on_from_the_card_before(finished: Run, corpus_file: Path, tmp_path: Path) -> None:
    whiten(finished.folder / "model", corpus_file, output=tmp_path / "white", sentences=200, k=8)
    text = (tmp_path / "white" / "model" / "README.md").read_text(encoding="utf-8")
    record = read_record(tmp_path / "white" / "result.json")
    for words in (
        "### 1. Trained with `simcse`",
        "### 2. Whitened with `BERT-whitening`",
        "| `k` | `8` | set for this run |",
        "| `exponent` | `0.25` | isotrope's default |",
        record["corpus"]["key"],
        "a vector of 8 numbers",
        "su2021whitening",
        "gao2021simcse",
        "**Not judged.**" if record["self_made"] is None else "texts that the fit did not see",
    ):
        assert words in text, words
    assert not [sentence for sentence in corpus_file.read_text().splitlines() if sentence and sentence in text]
